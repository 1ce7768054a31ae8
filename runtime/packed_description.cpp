#include "runtime/packed_description.h"

#include <nlohmann/json.hpp>

namespace knobwise::runtime_detail {
namespace {

using nlohmann::json;

// Of each field; reading and writing go through the same list, so that they agree.
template <class Visit>
void visit_fields(PlanDescription& d, Visit visit) {
  visit(d.family);
  visit(d.database);
  visit(d.based_on);
  visit(d.based_on_device);
  visit(d.device_match);
  visit(d.stored_code);
  visit(d.workspace_bytes);
  visit(d.packed_bytes);
  visit(d.stale);
  visit(d.notes);
}

json to_array(const std::optional<ErrorMetrics>& error) {
  if (!error) return nullptr;
  return {error->max_abs,      error->mean_abs, error->rms, error->rel_fro,
          error->frac_outside, error->checked,  error->nans};
}

std::optional<ErrorMetrics> to_error(const json& array) {
  if (array.is_null()) return std::nullopt;
  return ErrorMetrics{array.at(0), array.at(1), array.at(2), array.at(3),
                      array.at(4), array.at(5), array.at(6)};
}

}  // namespace

PackedDescription::PackedDescription(const PlanDescription& description) {
  PlanDescription copy = description;
  // An exact answer is based on the problem itself.
  if (copy.based_on == copy.problem) copy.based_on = "=";
  json fields = {static_cast<int>(copy.provenance), copy.configuration.to_json(), to_array(copy.error),
                 copy.predicted_us ? json(*copy.predicted_us) : json(nullptr)};
  visit_fields(copy, [&fields](const auto& field) { fields.push_back(field); });
  bytes_ = json::to_cbor(fields);
  bytes_.shrink_to_fit();
}

PlanDescription PackedDescription::unpack(const Problem& problem, const std::string& device) const {
  const json fields = json::from_cbor(bytes_);
  PlanDescription description;
  description.problem = problem.to_string();
  description.device = device;
  std::size_t next = 0;
  description.provenance = static_cast<Provenance>(fields.at(next++).get<int>());
  description.configuration = Configuration::from_json(fields.at(next++).get<std::string>());
  description.error = to_error(fields.at(next++));
  const json& predicted = fields.at(next++);
  if (!predicted.is_null()) description.predicted_us = predicted.get<double>();
  visit_fields(description, [&]<class Field>(Field& field) { field = fields.at(next++).get<Field>(); });
  if (description.based_on == "=") description.based_on = description.problem;
  return description;
}

}  // namespace knobwise::runtime_detail
