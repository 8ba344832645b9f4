#pragma once
// A plan file: [model] [cluster] [workload] [plan]. A run file is one with [data] [optimizer] [train].
#include "sextant/plan/plan.h"

namespace sextant {

/// One `section.key=value` of the command line.
struct Override {
  std::string section, key, text;
};
/// Splits "plan.dp_shard=4". Throws InvalidInput (usage).
Override parse_override(const std::string& argument);

/// A path of a file stands relative to it, so that a run can be started from anywhere.
std::string resolved(const std::string& path, const std::string& file);

struct PlanFile {
  std::string file;
  Value sections;  ///< all of the file, overridden
  ModelConfig model;
  std::string model_file;  ///< "" for a preset
  std::string cluster;     ///< a preset or a path; "" if the file names none
  int devices = 0;         ///< 0 if the file says nothing
  Workload workload;
  Plan plan;
};
/// Reads a plan or run file with overrides; `ranks` fills dp_shard, 0: [cluster] devices, or the plan's own. Does not
/// validate the plan. Throws InvalidInput on anything off.
PlanFile read_plan_file(const std::string& path, const std::vector<Override>& overrides, int ranks);

}  // namespace sextant
