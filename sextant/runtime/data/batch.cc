#include "sextant/runtime/data/batch.h"

#include "sextant/base/errors.h"
#include "sextant/base/random.h"

namespace sextant {

void fill_causal(std::int64_t sample, const SampleView& view) {
  const auto length = static_cast<std::int64_t>(view.ids.size());
  for (std::int64_t s = 0; s < length; ++s) {
    const auto at = static_cast<std::size_t>(s);
    view.positions[at] = view.last[at] = static_cast<std::int32_t>(s);
    view.first[at] = 0;
    view.tokens[at] = sample * length + s;
  }
}

WindowSampler::WindowSampler(Tokens tokens, std::int64_t sequence, std::uint64_t seed, Packing packing)
    : tokens_(std::move(tokens)),
      sequence_(sequence),
      windows_((tokens_.size() - 1) / sequence),
      seed_(seed),
      packing_(packing) {
  if (windows_ < 1)
    throw InvalidInput(
        str(printable(tokens_.path()), ": has ", tokens_.size(), " tokens, too few for one sequence of ", sequence_,
            " and its next token",
            tokens_.size() > 1 ? str("; use sequence <= ", tokens_.size() - 1, " or more text") : "; give more text"));
}

std::int64_t WindowSampler::window(std::int64_t sample) const {
  const auto epoch = static_cast<std::uint64_t>(sample / windows_),
             place = static_cast<std::uint64_t>(sample % windows_);
  return static_cast<std::int64_t>(
      permuted(RandomStream(seed_, Purpose::kDataOrder, epoch), place, static_cast<std::uint64_t>(windows_)));
}

void WindowSampler::operator()(std::int64_t sample, const SampleView& view) const {
  const std::int64_t begin = window(sample) * sequence_;
  fill_causal(sample, view);
  std::int32_t document = 0;  // where the current one starts in the window
  for (std::int64_t s = 0; s < sequence_; ++s) {
    const auto at = static_cast<std::size_t>(s);
    view.ids[at] = tokens_[begin + s];
    view.labels[at] = tokens_[begin + s + 1];
    if (packing_ == Packing::kIgnore) continue;
    view.first[at] = document;
    view.positions[at] = static_cast<std::int32_t>(s) - document;
    if (view.ids[at] == tokens_.end_of_text()) {
      document = static_cast<std::int32_t>(s) + 1;
      view.labels[at] = kIgnored;  // the next document does not follow from this one
    }
  }
}

}  // namespace sextant
