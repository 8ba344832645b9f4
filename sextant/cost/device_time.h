#pragma once
// What a device takes for the passes of ops.
#include "sextant/cluster/cluster.h"
#include "sextant/ops/linear.h"
#include "sextant/program/program.h"

namespace sextant {

/// A matrix product on the device's matrix units.
///   The best of a set of output tiles; tiles fill the units in whole waves; a tile of less than the largest size runs
///   at less than full speed (its operands are read more often), and a contraction of k costs as k + half_depth. Not
///   faster than memory brings and takes the three matrices.
/// Sources: tile and wave quantisation as in NVIDIA's matrix multiplication guide; the depth term and the ceiling from
/// measured curves (half of the plateau near 1300^3 on TPU v7x).
Seconds product_time(const Product& product, DType dtype, const Device& device, ProductType type = ProductType::kOwn);

/// A pass of an op on one rank: its products, or what it moves through memory, and a launch. Attention runs at the
/// device's ceiling for fused attention, with masked-out scores not computed (FlashAttention-2: whole blocks are left
/// out); weight gradients add into a buffer of `gradient_dtype`.
Seconds step_time(const Unit& unit, const Step& step, const MeshSizes& mesh, DType gradient_dtype,
                  const Device& device);

/// AdamW over `elements` parameters: each is read and written with its moments, master value, gradient and narrow copy.
Seconds optimizer_time(DType parameters, DType gradients, double elements, const Device& device);

}  // namespace sextant
