#include "sextant/runtime/kernels/dropout.h"

#include "sextant/runtime/kernels/kernel.h"

namespace sextant {
namespace {

// Reads: x, tokens. Writes: y. Backward: reads tokens, dy; writes dx.
template <class T, bool backward>
void dropout(const KernelCall& c) {
  const DropoutRule& rule = static_cast<const Dropout&>(c.op).rule;
  const View& in = c.reads[backward ? 1 : 0];
  const T* x = in.as<T>();
  const auto* tokens = c.reads[backward ? 0 : 1].as<std::int64_t>();
  T* y = c.writes[0].as<T>();
  const std::int64_t width = in.last(1);
  const bool add = backward && c.add[0];
  c.team.split(in.rows(1), 1, [&, stream = rule.stream(c.seed)](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      each_channel<T>(rule, stream, tokens, r, width, [&](std::int64_t d, T factor) {
        y[r * width + d] = factor * x[r * width + d] + (add ? y[r * width + d] : T{0});
      });
  });
}

}  // namespace

void add_dropout_kernels(KernelTable& table) {
  table.add("dropout", Pass::kF, dropout<float, false>, dropout<double, false>);
  table.add("dropout", Pass::kI, dropout<float, true>, dropout<double, true>);
}

}  // namespace sextant
