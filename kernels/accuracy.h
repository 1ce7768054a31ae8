// Error metrics against float64 and what a caller accepts of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace knobwise {

/// How a verification's inputs are drawn; every trial is verified on all three.
enum class Distribution {
  uniform,   ///< Input uniform in [0, 1); weights and bias uniform in +-1/sqrt(fan_in).
  normal,    ///< Input, scale and residual standard normal; weights and bias normal with deviation
             ///< 1/sqrt(fan_in).
  integers,  ///< Input integers in [-4, 4], weights in [-3, 3], other parameters in [-2, 2]: exact in every
             ///< mode that can hold them.
};
inline constexpr Distribution kDistributions[] = {Distribution::uniform, Distribution::normal,
                                                  Distribution::integers};
std::string_view to_string(Distribution distribution);

/// Errors of an output against its float64 reference, over the elements checked.
struct ErrorMetrics {
  double max_abs = 0, mean_abs = 0, rms = 0;
  double rel_fro = 0;  ///< ||out - ref|| / ||ref|| (0 if both are 0).
  double frac_outside =
      0;  ///< Share of elements with not |out - ref| <= 1e-4 + 1e-4 |ref|; NaN counts as outside.
  std::int64_t checked = 0;
  std::int64_t nans = 0;  ///< Output not a number where the reference is one, or the other way round; the
                          ///< other metrics leave these out.
};

/// Adds up errors element by element; a value type, not thread-safe (accumulate one per thread, then merge).
class ErrorAccumulator {
 public:
  void add(double out, double ref);
  void merge(const ErrorAccumulator& other);
  ErrorMetrics metrics() const;

 private:
  double max_abs_ = 0, sum_abs_ = 0, sum_squares_ = 0, sum_ref_squares_ = 0;
  std::int64_t checked_ = 0, outside_ = 0, nans_ = 0;
};

/// The error that a caller accepts, in every distribution. A NaN in the output never passes.
struct AccuracyRequirement {
  std::optional<double> max_abs, rel_fro, frac_outside;

  /// "allclose" (the default: every element within 1e-4 + 1e-4 |ref|), "tf32" (rel_fro <= 1e-3), "half"
  /// (rel_fro <= 2e-3: one rounding of fp16 operands), "bf16" (rel_fro <= 1.6e-2), "any", or numbers:
  /// "rel_fro=1e-4,max_abs=1e-3". Throws UserError.
  static AccuracyRequirement parse(std::string_view text);
  /// Those that have a name.
  static std::vector<AccuracyRequirement> named();
  std::string to_string() const;
  bool accepts(const ErrorMetrics& metrics) const;
};

}  // namespace knobwise
