// The text of device sources.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace knobwise {

/// The text of one file of kernels/cuda that NVRTC compiles ("element.cuh"): from the folder that the
/// environment variable KNOBWISE_CUDA_SOURCES names, if it is set and holds the file, else as embedded when
/// the program was built. Throws UserError for a name that is neither. Thread-safe.
std::string device_source(std::string_view file);

/// Digest of texts and then of device sources, for KernelFamily::source_hash(): 32 hexadecimal digits. Throws
/// as device_source() does. Thread-safe.
std::string text_digest(std::initializer_list<std::string_view> texts,
                        std::initializer_list<std::string_view> files);

}  // namespace knobwise
