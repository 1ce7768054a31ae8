// Which knobs decide the time.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "db/records.h"
#include "reports/knob_table.h"

namespace knobwise {

/// What one feature contributes to the model's predictions.
struct FeatureImportance {
  std::string feature;  ///< A knob's name, or "kernel family".
  double importance =
      0;  ///< Rise of the squared error when the feature is shuffled, over the variance; 0 or more.
};

struct KnobImportance {
  std::size_t trials = 0;  ///< Trials that the model was fitted to; 0 when there were too few.
  /// Share of the variance of log time that the model explains on trials left out of the fit (R squared).
  /// Importances of a model that explains little mean little.
  double explained = 0;
  std::vector<FeatureImportance> features;  ///< Most important first; empty when there were too few trials.
};

/// Permutation importance (Breiman, "Random Forests", 2001) of a random forest of regression trees on the
/// logarithm of the time of the ok trials. Out-of-bag trials judge it. Deterministic. Above a few thousand
/// trials an evenly spaced part is used, so that the cost stays below a second.
KnobImportance knob_importance(const std::vector<TrialRecord>& trials, const std::vector<KnobColumn>& knobs);

}  // namespace knobwise
