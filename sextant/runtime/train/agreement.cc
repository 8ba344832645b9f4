#include "sextant/runtime/train/agreement.h"

#include <cstring>

#include "sextant/base/digest.h"
#include "sextant/base/errors.h"

namespace sextant {
namespace {

// What a rank has read, in words that differ where the thing does.
struct Fact {
  std::string what, found, remedy;
};

std::string hex(std::uint64_t number) { return str(std::hex, number); }

std::vector<Fact> facts(const RunConfig& config, const Prepared& prepared) {
  std::vector<Fact> out;
  out.push_back({str("settings of ", printable(config.file, 60)),
                 "digest " + hex(digest(std::as_bytes(std::span(config.settings)))),
                 "give every rank the same run file and model"});
  out.push_back(
      {str("data.train ", printable(config.train_data, 60)),
       str(with_commas(prepared.tokens.size()), " tokens, digest ", hex(sampled_digest(prepared.tokens.bytes()))),
       "give every rank the same file"});
  if (prepared.initial) {
    std::uint64_t all = 0;
    std::size_t count = 0;
    for (const Safetensors& file : prepared.initial->files())
      for (const StoredTensor& t : file.tensors()) all = all * 31 + sampled_digest(t.data), ++count;
    out.push_back({str("train.initial_weights ", printable(config.initial_weights, 60)),
                   str(count, " tensors, digest ", hex(all)), "give every rank the same file"});
  }
  return out;
}

}  // namespace

void agree(Communicator& world, const RunConfig& config, const Prepared& prepared) {
  constexpr std::size_t kText = 256;
  const auto n = static_cast<std::size_t>(world.size());
  const std::vector<Fact> own = facts(config, prepared);
  // Whether there are initial weights is one of the settings' consequences: compared first, as a number of facts.
  std::vector<std::int64_t> counts(n);
  std::int64_t count = static_cast<std::int64_t>(own.size());
  world.all_gather({&count, 1, DType::kI64}, payload(std::span(counts)), "number of files read").wait();
  for (std::size_t r = 1; r < n; ++r)
    if (counts[r] != counts[0])
      throw InvalidInput(str("rank ", r, " reads ", counts[r] - 1, " files, rank 0 reads ", counts[0] - 1,
                             "; give every rank the same run file"));
  for (const Fact& fact : own) {
    std::vector<char> text(kText), all(kText * n);
    fact.found.copy(text.data(), kText - 1);
    const auto as_numbers = [](std::vector<char>& chars) {
      return Payload{chars.data(), static_cast<std::int64_t>(chars.size() / 8), DType::kI64};
    };
    world.all_gather(as_numbers(text), as_numbers(all), "digests of what ranks read").wait();
    const char* first = all.data();
    for (std::size_t r = 1; r < n; ++r)
      if (const char* other = all.data() + r * kText; std::strcmp(first, other) != 0)
        throw InvalidInput(str(fact.what, ": rank ", r, " sees something else than rank 0 (", other,
                               "; rank 0: ", first, "); ", fact.remedy),
                           ExitCode::kCorrupt);
  }
}

}  // namespace sextant
