#include "sextant/runtime/optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sextant {
namespace {

// One element, two updates by hand: decay 0.5 at rate 0.1 on a matrix.
TEST(Optimizer, AdamWByHand) {
  Team team(1);
  OptimizerConfig c{.kind = OptimizerKind::kAdamW, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .weight_decay = 0.5};
  double p = 2, m = 0, v = 0, wp = 2, wm = 0, wv = 0;
  for (int t = 1; t <= 2; ++t) {
    const double g = t == 1 ? 4 : -1;
    optimizer_step<double>(team, c, 0.1, t, 0.5, {{0, 1, true}}, &p, &g, &m, &v);
    const double scaled = 0.5 * g;
    wm = 0.9 * wm + 0.1 * scaled, wv = 0.99 * wv + 0.01 * scaled * scaled;
    wp = wp * (1 - 0.1 * 0.5) - 0.1 * (wm / (1 - std::pow(0.9, t))) / (std::sqrt(wv / (1 - std::pow(0.99, t))) + 1e-8);
    EXPECT_NEAR(p, wp, 1e-15);
  }
}

TEST(Optimizer, MomentumAndSgdByHandAndPaddingIsLeft) {
  Team team(2);
  OptimizerConfig c{.kind = OptimizerKind::kMomentum, .momentum = 0.5, .weight_decay = 0};
  double p[3] = {1, 7, 1}, g[3] = {2, NAN, 4}, m[3] = {0, 0, 0};
  const std::vector<Range> ranges{{0, 1, true}, {2, 3, false}};
  optimizer_step<double>(team, c, 0.1, 1, 1, ranges, p, g, m, nullptr);
  optimizer_step<double>(team, c, 0.1, 2, 1, ranges, p, g, m, nullptr);
  EXPECT_DOUBLE_EQ(p[0], 1 - 0.1 * 2 - 0.1 * 3);
  EXPECT_DOUBLE_EQ(p[2], 1 - 0.1 * 4 - 0.1 * 6);
  EXPECT_EQ(p[1], 7);
  EXPECT_EQ(sum_of_squares<double>(team, ranges, g), 20);
}

TEST(Optimizer, NormDoesNotDependOnTheTeam) {
  std::vector<float> x(100001);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  Team one(1), three(3);
  const std::vector<Range> ranges{{5, 70000, true}, {70016, 100001, false}};
  EXPECT_EQ(sum_of_squares<float>(one, ranges, x.data()), sum_of_squares<float>(three, ranges, x.data()));
}

TEST(LearningRate, WarmsUpAndEndsWhereItShould) {
  OptimizerConfig c{.learning_rate = 1, .warmup_steps = 10, .final_fraction = 0.1, .decay_fraction = 0.2};
  for (const LrSchedule s : {LrSchedule::kConstant, LrSchedule::kCosine, LrSchedule::kLinear, LrSchedule::kWsd}) {
    c.schedule = s;
    EXPECT_DOUBLE_EQ(learning_rate(c, 0, 110), 0.1);
    EXPECT_DOUBLE_EQ(learning_rate(c, 9, 110), 1);
    EXPECT_DOUBLE_EQ(learning_rate(c, 10, 110), 1);
    EXPECT_NEAR(learning_rate(c, 110, 110), s == LrSchedule::kConstant ? 1 : 0.1, 1e-15);
  }
  c.schedule = LrSchedule::kCosine;
  EXPECT_DOUBLE_EQ(learning_rate(c, 60, 110), 0.55);
  c.schedule = LrSchedule::kLinear;
  EXPECT_DOUBLE_EQ(learning_rate(c, 60, 110), 0.55);
  c.schedule = LrSchedule::kWsd;
  EXPECT_DOUBLE_EQ(learning_rate(c, 89, 110), 1);
  EXPECT_DOUBLE_EQ(learning_rate(c, 100, 110), 0.55);
}

}  // namespace
}  // namespace sextant
