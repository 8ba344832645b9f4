// What each op says of itself: shapes, FLOPs in both conventions, bytes, needs, and its rows of the placement calculus.
#include <gtest/gtest.h>

#include "sextant/ops/add.h"
#include "sextant/ops/attention.h"
#include "sextant/ops/convert.h"
#include "sextant/ops/embedding.h"
#include "sextant/ops/fused.h"
#include "sextant/ops/gelu.h"
#include "sextant/ops/head.h"
#include "sextant/ops/linear.h"
#include "sextant/ops/norm.h"
#include "sextant/ops/residual.h"
#include "sextant/ops/rope.h"
#include "sextant/ops/swiglu.h"
#include "sextant/ops/unfused_attention.h"

namespace sextant {
namespace {

TensorSpec tensor(std::vector<Extent> dims, Placement tp = replicate(), DType dtype = DType::kF32) {
  TensorSpec spec{.dims = std::move(dims), .dtype = dtype};
  spec.place(Axis::kTp, tp);
  return spec;
}
std::string row(const Op& op, const std::vector<TensorSpec>& in, CpKind kind = CpKind::kAllGather) {
  return to_string(op.row(in, Axis::kTp, kind));
}
std::string dims(const TensorSpec& spec) {
  std::string out;
  for (const Extent& e : spec.dims) out += std::string(1, e.dim) + std::to_string(e.size) + " ";
  return out;
}

const std::vector<Extent> kX = {{'B', 2}, {'S', 8}, {'D', 6}}, kQ = {{'B', 2}, {'S', 8}, {'H', 4}, {'K', 3}},
                          kKv = {{'B', 2}, {'S', 8}, {'G', 2}, {'K', 3}}, kIds = {{'B', 2}, {'S', 8}};
const Placement R = replicate(), P = partial();
TensorSpec ids(Placement p = replicate()) { return tensor(kIds, p, DType::kI32); }

TEST(Linear, ShapesWorkAndNeeds) {
  const Linear op;
  const std::vector<TensorSpec> in = {tensor(kX), tensor({{'H', 4}, {'K', 3}, {'D', 6}}), tensor({{'H', 4}, {'K', 3}})};
  EXPECT_EQ(dims(op.outputs(in)[0]), "B2 S8 H4 K3 ");
  for (const Pass pass : {Pass::kF, Pass::kI, Pass::kW}) EXPECT_EQ(op.work(pass, in).flops_full, 2 * 16 * 12 * 6);
  EXPECT_EQ(op.work(Pass::kF, in).read.value, 4 * (16 * 6 + 12 * 6));
  EXPECT_EQ(op.work(Pass::kW, in).written.value, 4 * 12 * 6);
  EXPECT_EQ(op.needs(Pass::kI).in, std::vector{1});
  EXPECT_EQ(op.needs(Pass::kW).in, std::vector{0});
  EXPECT_EQ(op.gradient_pass(0), Pass::kI);
  EXPECT_EQ(op.gradient_pass(2), Pass::kW);
}

TEST(Linear, RowsAreChosenByTheWeight) {
  const Linear op;
  const std::vector<Extent> w = {{'F', 10}, {'D', 6}}, b = {{'F', 10}};
  EXPECT_EQ(row(op, {tensor(kX), tensor(w, shard('F')), tensor(b)}), "C S(F) S(F) -> S(F)");  // column
  EXPECT_EQ(row(op, {tensor(kX, shard('S')), tensor(w, shard('F'))}),
            "C S(F) -> S(F)");  // column behind sequence shards
  EXPECT_EQ(row(op, {tensor(kX, shard('D')), tensor(w, shard('D'))}), "S(D) S(D) -> P");   // row
  EXPECT_EQ(row(op, {tensor(kX, shard('B')), tensor(w), tensor(b)}), "S(B) C C -> S(B)");  // data
  EXPECT_EQ(row(op, {tensor(kX), tensor(w), tensor(b)}), "R R R -> R");                    // same work
  EXPECT_EQ(row(op, {tensor(kX), tensor({{'G', 2}, {'K', 3}, {'D', 6}}, shard('G', 2))}), "C S(G,2) -> S(G,2)");
  EXPECT_NE(row(op, {tensor(kX), tensor(w, shard('D')), tensor(b)})
                .find("refused: a product over a split dim yields a sum and cannot carry a bias"),
            std::string::npos);
}

TEST(Attention, ShapesWorkAndRows) {
  const Attention op;
  const auto in = [&](Placement q, Placement kv) {
    return std::vector<TensorSpec>{tensor(kQ, q), tensor(kKv, kv), tensor(kKv, kv), ids(), ids()};
  };
  const auto local = in(R, R);
  EXPECT_EQ(dims(op.outputs(local)[0]) + dims(op.outputs(local)[1]), "B2 S8 H4 K3 B2 S8 H4 ");
  // Two products of 2 S S K per head and sequence; causal: 36 of 64 scores.
  EXPECT_EQ(op.work(Pass::kF, local).flops_full, 2 * 4 * 2 * (2 * 8 * 8 * 3));
  EXPECT_EQ(op.work(Pass::kF, local).flops_causal, 2 * 4 * 2 * (2 * 36 * 3));
  EXPECT_EQ(op.work(Pass::kI, local).flops_full, 2.5 * op.work(Pass::kF, local).flops_full);
  EXPECT_EQ(row(op, in(shard('H'), shard('G'))), "S(H) S(G) S(G) R R -> S(H) S(H)");
  EXPECT_EQ(row(op, in(shard('H'), shard('G', 2))), "S(H) S(G,2) S(G,2) R R -> S(H) S(H)");
  EXPECT_EQ(row(op, in(shard('S'), shard('S'))), "S(S) C C S(S) S(S) -> S(S) S(S)");
  EXPECT_EQ(row(op, in(shard('S'), shard('S')), CpKind::kUlysses), "S(H) S(G) S(G) R R -> S(H) S(H)");
  EXPECT_EQ(row(op, in(shard('B'), shard('B'))), "S(B) S(B) S(B) S(B) S(B) -> S(B) S(B)");
  EXPECT_EQ(row(op, in(R, R)), "R R R R R -> R R");
  EXPECT_NE(row(op, in(shard('S'), shard('S')), CpKind::kRing).find("refused: ring"), std::string::npos);
  EXPECT_NE(row(op, in(shard('K'), R)).find("refused: attention cannot be split over K"), std::string::npos);
}

TEST(Norm, ShapesAndRows) {
  const Norm layer(NormKind::kLayer, 1e-5), rms(NormKind::kRms, 1e-5);
  const std::vector<Extent> w = {{'D', 6}}, heads = {{'H', 4}, {'K', 3}};
  EXPECT_EQ(layer.outputs(std::vector{tensor(kX), tensor(w), tensor(w)}).size(), 3U);  // y, mean, 1/std
  EXPECT_EQ(dims(rms.outputs(std::vector{tensor(kQ), tensor({{'K', 3}})})[1]), "B2 S8 H4 ");
  EXPECT_EQ(row(layer, {tensor(kX, shard('S')), tensor(w), tensor(w)}), "S(S) C C -> S(S) S(S) S(S)");
  EXPECT_EQ(row(rms, {tensor(kX), tensor(w)}), "R R -> R R");
  EXPECT_EQ(row(rms, {tensor(kQ, shard('H')), tensor({{'K', 3}})}), "S(H) C -> S(H) S(H)");  // Qwen3's q norm
  EXPECT_EQ(row(rms, {tensor(kQ, shard('H')), tensor(heads, shard('H'))}),
            "S(H) S(H) -> S(H) R");  // OLMo-2's, sums inside
  const auto inside = std::get<Row>(
      rms.row(std::vector{tensor(kQ, shard('H')), tensor(heads, shard('H'))}, Axis::kTp, CpKind::kAllGather));
  EXPECT_EQ(inside.inside_f.size() + inside.inside_i.size(), 2U);
  EXPECT_EQ(inside.inside_f[0].dims, "BS");
  EXPECT_EQ(row(rms, {tensor(kKv, shard('G', 2)), tensor({{'G', 2}, {'K', 3}}, shard('G', 2))}),
            "S(G,2) S(G,2) -> S(G,2) R");
}

TEST(Embedding, ShapesAndRows) {
  const Embedding op;
  const std::vector<Extent> w = {{'V', 9}, {'D', 6}};
  EXPECT_EQ(dims(op.outputs(std::vector{ids(), tensor(w)})[0]), "B2 S8 D6 ");
  EXPECT_EQ(row(op, {ids(), tensor(w, shard('V'))}), "R S(V) -> P");
  EXPECT_EQ(row(op, {ids(shard('S')), tensor(w)}), "S(S) C -> S(S)");
  EXPECT_EQ(row(op, {ids(), tensor(w)}), "R R -> R");
}

TEST(Head, ChunksWorkAndRows) {
  const Head op;
  const std::vector<Extent> w = {{'V', 9}, {'D', 6}};
  EXPECT_EQ(row(op, {tensor(kX), tensor(w, shard('V')), ids()}), "C S(V) R -> R");
  EXPECT_EQ(row(op, {tensor(kX, shard('B')), tensor(w), ids(shard('B'))}), "S(B) C S(B) -> P");
  EXPECT_EQ(row(op, {tensor(kX), tensor(w), ids()}), "R R R -> R");
  EXPECT_EQ(op.result_pass(), Pass::kI);
  const std::vector<TensorSpec> in = {tensor(kX), tensor(w), ids()};
  EXPECT_EQ(op.work(Pass::kI, in).flops_full, 3 * op.work(Pass::kF, in).flops_full);
  EXPECT_EQ(Head::chunk(256, 50257), 128);  // two equal chunks, each below 32 MB of float logits
  EXPECT_EQ(Head::chunk(100, 50257), 100);
  EXPECT_EQ(Head::chunk(5, 100'000'000), 1);
}

TEST(ElementWise, RowsFollowTheirInput) {
  const Gelu gelu(GeluKind::kErf);
  const Swiglu swiglu;
  const Rope rope(1e4, {});
  EXPECT_EQ(row(gelu, {tensor(kX, shard('D'))}), "S(D) -> S(D)");
  EXPECT_EQ(row(gelu, {tensor(kX, P)}), "R -> R");  // a sum is completed before anything that is not linear
  EXPECT_EQ(row(swiglu, {tensor(kX, shard('S')), tensor(kX, shard('S'))}), "S(S) S(S) -> S(S)");
  EXPECT_EQ(row(rope, {tensor(kQ, shard('H')), ids()}), "S(H) R -> S(H)");
  EXPECT_EQ(row(rope, {tensor(kQ, shard('S')), ids()}), "S(S) S(S) -> S(S)");
  EXPECT_NE(row(rope, {tensor(kQ, shard('K')), ids()}).find("refused"), std::string::npos);
  EXPECT_EQ(row(Add(), {tensor(kX, P), tensor(kX, P)}), "P P -> P");
  EXPECT_EQ(row(Add(), {tensor(kX, shard('S')), tensor(kX, shard('S'))}), "S(S) S(S) -> S(S)");
}

TEST(Residual, TheBiasIsCopiedWhereTokensAreSplit) {
  const Residual op(true, {});
  EXPECT_EQ(row(op, {tensor(kX, shard('S')), tensor(kX, shard('S')), tensor({{'D', 6}})}), "S(S) S(S) C -> S(S)");
  EXPECT_EQ(row(op, {tensor(kX), tensor(kX), tensor({{'D', 6}})}), "R R R -> R");
  EXPECT_NE(
      row(Residual(false, {0.1, "x"}), {tensor(kX, shard('D')), tensor(kX, shard('D')), tensor(kIds, R, DType::kI64)})
          .find("refused: dropout needs whole channels"),
      std::string::npos);
  EXPECT_TRUE(Residual(true, {}).needs(Pass::kI).in.empty());
  EXPECT_EQ(Residual(true, DropoutRule{0.1, "x"}).needs(Pass::kI).in, std::vector{3});
}

// The table of docs/placements.md: collective and bytes of every conversion, of a tensor with 384 B over 4 ranks.
TEST(Convert, CollectivesAndBytes) {
  MeshSizes mesh;
  mesh[Axis::kTp] = 4;
  struct Case {
    Placement from, to;
    CollectiveKind kind;
    int bytes;
  };
  const Placement C = copied(), S = shard('S'), D = shard('D');
  for (const Case& c : {Case{R, C, CollectiveKind::kNone, 0},
                        {P, R, CollectiveKind::kAllReduce, 2 * 288},
                        {P, S, CollectiveKind::kReduceScatter, 288},
                        {P, C, CollectiveKind::kAllReduce, 2 * 288},
                        {S, C, CollectiveKind::kAllGather, 288},
                        {S, R, CollectiveKind::kAllGather, 288},
                        {R, S, CollectiveKind::kNone, 0},
                        {C, S, CollectiveKind::kNone, 0},
                        {S, D, CollectiveKind::kAllToAll, 72}}) {
    const Convert op(Axis::kTp, c.from, c.to, mesh[Axis::kTp]);
    EXPECT_EQ(op.collective(), c.kind) << to_string(c.from) << " -> " << to_string(c.to);
    EXPECT_EQ(op.bytes(tensor(kX, c.from), mesh).value, c.bytes) << to_string(c.from) << " -> " << to_string(c.to);
  }
  EXPECT_EQ(dual(C), P);
  EXPECT_EQ(dual(P), R);
  EXPECT_EQ(dual(R), R);
  EXPECT_EQ(dual(shard('G', 2)), shard('G', 2));
}

TEST(Fused, WorkIsThePartsLessTheSecondReading) {
  const auto residual = std::make_shared<Residual>(false, DropoutRule{});
  const auto norm = std::make_shared<Norm>(NormKind::kRms, 1e-5);
  const Fused fused(residual, norm, 0, 2);
  const std::vector<TensorSpec> in = {tensor(kX), tensor(kX), tensor({{'D', 6}})};
  EXPECT_EQ(fused.kind(), "residual+rmsnorm");
  EXPECT_EQ(fused.outputs(in).size(), 3U);
  const Work a = residual->work(Pass::kF, std::span(in).first(2)), b = norm->work(Pass::kF, std::vector{in[0], in[2]}),
             both = fused.work(Pass::kF, in);
  EXPECT_EQ(both.flops_full, a.flops_full + b.flops_full);
  EXPECT_EQ(both.read.value, (a.read + b.read).value - 96 * 4);
  EXPECT_EQ(both.written, a.written + b.written);
}

TEST(LocalSizes, PaddedSlicesNestAndCopies) {
  MeshSizes mesh;
  mesh[Axis::kTp] = 4, mesh[Axis::kCp] = 2;
  TensorSpec spec = tensor({{'S', 10}, {'V', 37}, {'G', 2}}, shard('V'));
  spec.place(Axis::kCp, shard('S'));
  EXPECT_EQ(local_size(spec, 'V', mesh), 10);  // 37 over 4: padded
  EXPECT_EQ(local_size(spec, 'S', mesh), 5);
  spec.place(Axis::kTp, shard('G', 2));
  EXPECT_EQ(local_size(spec, 'G', mesh), 1);  // two slices, each held twice
}

// The products of every pass have the FLOPs that the op declares, head and backward passes included.
TEST(Products, HaveTheFlopsOfTheWork) {
  const std::vector<TensorSpec> qkv{tensor({{'B', 2}, {'S', 12}, {'H', 4}, {'K', 8}}),
                                    tensor({{'B', 2}, {'S', 12}, {'G', 2}, {'K', 8}}),
                                    tensor({{'B', 2}, {'S', 12}, {'G', 2}, {'K', 8}})};
  const TensorSpec p = tensor({{'B', 2}, {'H', 4}, {'S', 12}, {'C', 12}});
  struct Case {
    std::shared_ptr<const Op> op;
    std::vector<TensorSpec> in;
    std::vector<Pass> passes;
  };
  const std::vector<Case> cases = {{std::make_shared<Linear>(),
                                    {tensor({{'B', 2}, {'S', 12}, {'D', 6}}), tensor({{'F', 10}, {'D', 6}})},
                                    {Pass::kF, Pass::kI, Pass::kW}},
                                   {std::make_shared<Head>(),
                                    {tensor({{'B', 2}, {'S', 12}, {'D', 6}}), tensor({{'V', 11}, {'D', 6}}),
                                     tensor({{'B', 2}, {'S', 12}}, replicate(), DType::kI32)},
                                    {Pass::kF, Pass::kI}},
                                   {std::make_shared<Attention>(), qkv, {Pass::kF, Pass::kI}},
                                   {std::make_shared<Scores>(), {qkv[0], qkv[1]}, {Pass::kF, Pass::kI}},
                                   {std::make_shared<Context>(), {p, qkv[2]}, {Pass::kF, Pass::kI}}};
  for (const Case& c : cases)
    for (const Pass pass : c.passes) {
      double flops = 0;
      for (const Product& product : c.op->products(pass, c.in)) flops += product.flops();
      EXPECT_DOUBLE_EQ(flops, c.op->work(pass, c.in).flops_causal) << c.op->kind() << " " << name_of(pass);
    }
}

}  // namespace
}  // namespace sextant
