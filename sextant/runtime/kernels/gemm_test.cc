#include "sextant/runtime/kernels/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "sextant/base/random.h"
#include "sextant/runtime/kernels/math.h"

namespace sextant {
namespace {

template <class T>
std::vector<T> noise(std::int64_t n, std::uint64_t stream) {
  std::vector<T> x(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<T>(RandomStream(2, Purpose::kTest, stream).uniform(i) * 2 - 1);
  return x;
}

// Every form, with odd sizes and leading dimensions, against the plain twin. Rounding: k terms of size 1.
template <class T>
void against_reference(double tolerance) {
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1}, {3, 5, 7}, {17, 33, 50}, {64, 48, 65}, {5, 1, 9}})
    for (const Transpose ta : {Transpose::kNo, Transpose::kYes})
      for (const Transpose tb : {Transpose::kNo, Transpose::kYes})
        for (const T beta : {T{0}, T{1}}) {
          const std::int64_t lda = (ta == Transpose::kYes ? m : k) + 3, ldb = (tb == Transpose::kYes ? k : n) + 2,
                             ldc = n + 1;
          const auto a = noise<T>(lda * std::max(m, k), 1), b = noise<T>(ldb * std::max(n, k), 2);
          auto c = noise<T>(ldc * m, 3), wanted = c, portable = c;
          gemm<T>(ta, tb, m, n, k, a.data(), lda, b.data(), ldb, beta, c.data(), ldc);
          portable::gemm<T>(ta, tb, m, n, k, a.data(), lda, b.data(), ldb, beta, portable.data(), ldc);
          gemm_reference<T>(ta, tb, m, n, k, a.data(), lda, b.data(), ldb, beta, wanted.data(), ldc);
          for (std::size_t i = 0; i < c.size(); ++i) {
            ASSERT_NEAR(c[i], wanted[i], tolerance * static_cast<double>(k)) << m << " " << n << " " << k;
            ASSERT_NEAR(portable[i], wanted[i], tolerance * static_cast<double>(k)) << m << " " << n << " " << k;
          }
        }
}

TEST(Gemm, FloatEqualsTheReference) { against_reference<float>(2e-7); }
TEST(Gemm, DoubleEqualsTheReference) { against_reference<double>(4e-16); }

TEST(Gemm, ProductsOverATeamEqualThoseOfOneThread) {
  Team one(1), three(3);
  const std::int64_t m = 20, n = 70, k = 50;
  const auto x = noise<double>(m * k, 1), w = noise<double>(n * k, 2), bias = noise<double>(n, 3),
             dy = noise<double>(m * n, 4);
  const auto run = [&](Team& team) {
    std::vector<double> y(static_cast<std::size_t>(m * n)), dx = noise<double>(m * k, 5), dw = noise<double>(n * k, 6);
    product_forward<double>(team, m, n, k, x.data(), w.data(), bias.data(), y.data());
    product_input<double>(team, m, n, k, dy.data(), w.data(), true, dx.data());
    product_weight<double>(team, m, n, k, dy.data(), x.data(), false, dw.data());
    y.insert(y.end(), dx.begin(), dx.end());
    y.insert(y.end(), dw.begin(), dw.end());
    return y;
  };
  EXPECT_EQ(run(one), run(three));
}

TEST(Math, ExpAndTanhOverTheWholeRange) {
  for (float x = -87.2F; x < 88.5F; x += 0.0137F) {
    const double wanted = std::exp(static_cast<double>(x));
    ASSERT_NEAR(fast_exp(x) / wanted, 1, 3e-7) << x;
    ASSERT_NEAR(fast_tanh(x), std::tanh(static_cast<double>(x)), 4e-7) << x;
  }
  EXPECT_EQ(fast_exp(-100.0F), 0);
  EXPECT_EQ(fast_exp(-INFINITY), 0);
  EXPECT_GT(fast_exp(1000.0F), 3e38F);
  EXPECT_TRUE(std::isnan(fast_exp(NAN)));
  EXPECT_TRUE(std::isnan(fast_tanh(NAN)));
}

}  // namespace
}  // namespace sextant
