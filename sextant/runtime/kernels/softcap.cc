#include "sextant/ops/softcap.h"

#include "sextant/runtime/kernels/elementwise.h"
#include "sextant/runtime/kernels/math.h"

namespace sextant {
namespace {

// Reads: x. Writes: y.
template <class T>
void softcap_forward(const KernelCall& c) {
  const T* x = c.reads[0].as<T>();
  T* y = c.writes[0].as<T>();
  const T cap = static_cast<T>(static_cast<const Softcap&>(c.op).cap);
  each(c, c.reads[0].elements(), [=](std::int64_t i) { y[i] = cap * fast_tanh(x[i] / cap); });
}

// Reads: x, dy. Writes: dx.
template <class T>
void softcap_backward(const KernelCall& c) {
  const T *x = c.reads[0].as<T>(), *dy = c.reads[1].as<T>();
  const T cap = static_cast<T>(static_cast<const Softcap&>(c.op).cap);
  each_gradient<T>(c, 0, [=](std::int64_t i) {
    const T t = fast_tanh(x[i] / cap);
    return dy[i] * (T{1} - t * t);
  });
}

}  // namespace

void add_softcap_kernels(KernelTable& table) {
  table.add("softcap", Pass::kF, softcap_forward<float>, softcap_forward<double>);
  table.add("softcap", Pass::kI, softcap_backward<float>, softcap_backward<double>);
}

}  // namespace sextant
