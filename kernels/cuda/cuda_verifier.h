// Verification of whole outputs on the device.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>

#include "kernels/cuda/cuda_tools.h"
#include "kernels/device.h"

namespace knobwise {

/// Compares outputs, all elements, with the reference family's float64 results. References are kept on the
/// device under the digest of the inputs' content, so that the candidates of one problem share them however
/// the inputs came there. Not thread-safe.
class CudaVerifier {
 public:
  /// Keeps references to both.
  CudaVerifier(Device& device, CudaTools& tools);
  ~CudaVerifier();

  /// `buffers` as for a run; workspace and packed are not used. Throws UserError when the float64 of even one
  /// sample does not fit into the device's memory.
  ErrorMetrics verify(const Problem& problem, const Buffers& buffers);

  /// Gives the memory of kept references back.
  void forget();

 private:
  struct Kept;
  const double* find(const std::string& key);
  const double* keep(const std::string& key, const Problem& problem, const Buffers& buffers);
  std::string key_of(const Problem& problem, const Buffers& buffers);
  Executable& reference_of(const Problem& problem);
  void compute(const Problem& problem, const Buffers& buffers, void* reference);
  ErrorMetrics verify_by_samples(const Problem& problem, const Buffers& buffers);
  std::int64_t budget_bytes() const;

  Device& device_;
  CudaTools& tools_;
  std::list<Kept> kept_;  ///< Most recently used first.
  std::map<std::string, std::unique_ptr<Executable>> references_;
};

}  // namespace knobwise
