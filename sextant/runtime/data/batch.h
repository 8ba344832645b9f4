#pragma once
// Which tokens a step trains on: a pure function of (seed, step), whatever the layout.
#include <functional>
#include <span>

#include "sextant/runtime/data/tokens.h"

namespace sextant {

inline constexpr std::int32_t kIgnored = -100;  ///< a label that counts for nothing

/// Whether attention crosses the documents of a window.
enum class Packing : std::uint8_t { kIgnore, kSeparate };

/// One sequence, in the fields that the model's data tensors name. All have the sequence's length.
struct SampleView {
  std::span<std::int32_t> ids, labels, positions, first, last;
  std::span<std::int64_t> tokens;  ///< number of the token in the whole run: keys dropout masks
};
/// Fills the sample with a number in the run: step * global batch + place in the batch.
using SampleSource = std::function<void(std::int64_t sample, const SampleView& view)>;

/// Fills positions, first, last and tokens of a sample that is one document.
void fill_causal(std::int64_t sample, const SampleView& view);

/// Windows of `sequence` + 1 tokens that do not overlap. An epoch visits each window once, in an order keyed by (seed,
/// epoch); the rest of under one window at the end is not used. Throws InvalidInput if there is no window.
class WindowSampler {
 public:
  WindowSampler(Tokens tokens, std::int64_t sequence, std::uint64_t seed, Packing packing);
  void operator()(std::int64_t sample, const SampleView& view) const;
  std::int64_t windows() const { return windows_; }
  /// The window that a sample reads.
  std::int64_t window(std::int64_t sample) const;

 private:
  Tokens tokens_;
  std::int64_t sequence_, windows_;
  std::uint64_t seed_;
  Packing packing_;
};

}  // namespace sextant
