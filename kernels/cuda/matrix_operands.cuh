// Elements in memory and operands of the tensor cores: what the tensor-core convolutions share. Compiled after
// the prelude, whose KW_DTYPE_* says what lies in memory and KNOB_precision_* what is multiplied.

namespace knobwise {

#if KW_DTYPE_F32
using Element = float;
#else
using Element = unsigned short;
#endif

template <bool kWide>
struct OffsetType {
  using type = int;
};
template <>
struct OffsetType<true> {
  using type = long long;
};

__device__ __forceinline__ float to_float(float value) {
  return value;
}
__device__ __forceinline__ float to_float(unsigned short bits) {
#if KW_DTYPE_BF16
  return __uint_as_float(static_cast<unsigned>(bits) << 16);
#else
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#endif
}

__device__ __forceinline__ void from_float(float& element, float value) {
  element = value;
}
__device__ __forceinline__ void from_float(unsigned short& element, float value) {
#if KW_DTYPE_BF16
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(element) : "f"(value));
#else
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(element) : "f"(value));
#endif
}

/// Two neighbours of a 16-bit type, the first one lowest.
__device__ __forceinline__ unsigned pack_pair(float a, float b) {
  unsigned short low, high;
  from_float(low, a);
  from_float(high, b);
  return static_cast<unsigned>(high) << 16 | low;
}

/// Writes two neighbours; `target` is aligned to both.
__device__ __forceinline__ void store_pair(float* target, float a, float b) {
  *reinterpret_cast<float2*>(target) = make_float2(a, b);
}
__device__ __forceinline__ void store_pair(unsigned short* target, float a, float b) {
  *reinterpret_cast<unsigned*>(target) = pack_pair(a, b);
}

/// The operand that holds a (and, for 16-bit types, b after it), rounded to nearest.
__device__ __forceinline__ unsigned round_word(float a, float b) {
  unsigned word;
#if KNOB_precision_fp16 || KNOB_precision_fp16x3 || KNOB_precision_fp16_e5m2
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(b), "f"(a));
#elif KNOB_precision_bf16 || KNOB_precision_bf16x3
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(b), "f"(a));
#else
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(a));
#endif
  return word;
}

/// The value of element kIndex of an operand.
template <int kIndex>
__device__ __forceinline__ float word_value(unsigned word) {
#if KNOB_precision_fp16 || KNOB_precision_fp16x3 || KNOB_precision_fp16_e5m2
  float value;
  const unsigned short bits = static_cast<unsigned short>(kIndex == 0 ? word : word >> 16);
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#elif KNOB_precision_bf16 || KNOB_precision_bf16x3
  return __uint_as_float(kIndex == 0 ? word << 16 : word & 0xffff0000u);
#else
  return __uint_as_float(word);
#endif
}

/// Products of fp16, with those of their operands' errors in e5m2, summed apart.
#if KNOB_precision_fp16_e5m2
constexpr bool kErrorSums = true;
#else
constexpr bool kErrorSums = false;
#endif
/// What fp16 leaves of an operand, about 2^-11 of it, is multiplied by this before it is rounded to e5m2, whose range is that of
/// fp16.
constexpr float kErrorScale = 2048.0f;

#if KNOB_precision_fp16_e5m2

/// The operand that holds four values rounded to e5m2, the first one lowest.
__device__ __forceinline__ unsigned round_errors(float a, float b, float c, float d) {
  unsigned short low, high;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(low) : "f"(b), "f"(a));
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(high) : "f"(d), "f"(c));
  return static_cast<unsigned>(high) << 16 | low;
}
#endif

/// Descriptor, for warpgroup instructions, of a matrix in shared memory without swizzle, its reduction contiguous: the
/// second chunk of 16 bytes is `chunk_bytes` further, the next 8 rows 128 bytes. Adding bytes / 16 moves it.
__device__ __forceinline__ unsigned long long describe(unsigned address, int chunk_bytes) {
  return static_cast<unsigned long long>(address >> 4 & 0x3fff) |
         static_cast<unsigned long long>(chunk_bytes >> 4) << 16 | static_cast<unsigned long long>(128 >> 4) << 32;
}

/// kCount neighbours in memory, as they lie there. They are taken apart where they are used, so that nothing waits
/// for them before.
template <int kCount>
struct Neighbours {
  static constexpr int kBytes = kCount * static_cast<int>(sizeof(Element));
  unsigned words[kBytes >= 4 ? kBytes / 4 : 1];

  /// Those at `memory`, which is aligned to all of them; zeros if they are not `present`. Without a branch, since the
  /// loads of a branch are awaited at its end once a warp has many under way.
  __device__ __forceinline__ void load(const Element* memory, bool present) {
    const int flag = present;
    if constexpr (kBytes == 16) {
      asm("{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\nmov.b32 %0, 0;\nmov.b32 %1, 0;\nmov.b32 %2, 0;\nmov.b32 %3, 0;\n"
          "@p ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];\n}"
          : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
          : "l"(memory), "r"(flag));
    } else if constexpr (kBytes == 8) {
      asm("{\n.reg .pred p;\nsetp.ne.b32 p, %3, 0;\nmov.b32 %0, 0;\nmov.b32 %1, 0;\n"
          "@p ld.global.nc.v2.b32 {%0, %1}, [%2];\n}"
          : "=r"(words[0]), "=r"(words[1])
          : "l"(memory), "r"(flag));
    } else if constexpr (kBytes == 4) {
      asm("{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\nmov.b32 %0, 0;\n@p ld.global.nc.b32 %0, [%1];\n}"
          : "=r"(words[0])
          : "l"(memory), "r"(flag));
    } else {
      asm("{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\nmov.b32 %0, 0;\n@p ld.global.nc.u16 %0, [%1];\n}"
          : "=r"(words[0])
          : "l"(memory), "r"(flag));
    }
  }
  __device__ __forceinline__ Element element(int i) const {
#if KW_DTYPE_F32
    return __uint_as_float(words[i]);
#else
    return static_cast<unsigned short>(words[i / 2] >> i % 2 * 16);
#endif
  }
};

/// Elements on their way to the operands: as they lie in memory if they are multiplied so, else as numbers.
#if (KW_DTYPE_F16 && KNOB_precision_fp16) || (KW_DTYPE_BF16 && KNOB_precision_bf16)
using Staged = Element;
__device__ __forceinline__ unsigned pair_word(Element a, Element b) {
  return a | static_cast<unsigned>(b) << 16;
}
#else
using Staged = float;
__device__ __forceinline__ unsigned pair_word(float a, float b) {
  return round_word(a, b);
}
#endif

__device__ __forceinline__ Staged to_staged(Element element) {
  if constexpr (sizeof(Staged) == sizeof(Element))
    return element;
  else
    return to_float(element);
}

/// Elements that one access writes.
template <int kBytes>
struct Access {
  using type = unsigned short;
};
template <>
struct Access<4> {
  using type = unsigned;
};
template <>
struct Access<8> {
  using type = uint2;
};
template <>
struct Access<16> {
  using type = uint4;
};

#if KW_EPILOGUE_RESIDUAL
/// Neighbouring results plus the residual's elements at `residual`, with what follows in the epilogue.
template <class Word>
__device__ __forceinline__ Word add_residual(const Word& results, const Element* residual) {
  union Parts {
    Word word;
    Element elements[sizeof(Word) / sizeof(Element)];
  };
  Parts parts{results};
  const Parts added{__ldg(reinterpret_cast<const Word*>(residual))};
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(Word) / sizeof(Element)); ++i)
    from_float(parts.elements[i], kw_between(to_float(parts.elements[i]) + to_float(added.elements[i]), 0));
  return parts.word;
}
#endif

/// Writes kCount neighbouring results from shared memory to `target` in `output`, with the residual at the same
/// place added if there is one.
template <int kCount, class Result>
__device__ __forceinline__ void write_results(Result* target, const Result* shared, const Result* output,
                                              const Element* residual) {
  using Word = typename Access<kCount * static_cast<int>(sizeof(Result))>::type;
  const Word word = *reinterpret_cast<const Word*>(shared);
#if KW_EPILOGUE_RESIDUAL
  *reinterpret_cast<Word*>(target) = add_residual(word, residual + (target - output));
#else
  *reinterpret_cast<Word*>(target) = word;
#endif
}

/// Waits for all threads of the cluster of kBlocks blocks; for nothing if that is one.
template <int kBlocks>
__device__ __forceinline__ void cluster_barrier() {
#if __CUDA_ARCH__ >= 900
  if constexpr (kBlocks > 1)
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
#endif
}

/// The float at `local`, an address in this block's shared memory, of block `rank` of the cluster.
template <int kBlocks>
__device__ __forceinline__ float cluster_load(const float* local, int rank) {
#if __CUDA_ARCH__ >= 900
  if constexpr (kBlocks > 1) {
    unsigned remote;
    float value;
    const unsigned mine = shared_address(local);
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(mine), "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(remote) : "memory");
    return value;
  }
#endif
  return *local;
}

}  // namespace knobwise
