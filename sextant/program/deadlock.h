#pragma once
// Whether the ranks of a program can wait for each other for ever.
#include <optional>

#include "sextant/program/program.h"

namespace sextant {

/// How messages travel.
enum class Delivery : std::uint8_t {
  kUnbounded,   ///< a send never waits: only data dependencies are left
  kRendezvous,  ///< a send ends when its receive is posted; posting waits for nothing
  kSlots  ///< blocking: a send waits for one of so many slots of its ordered pair of ranks, and a receive is where
          ///< its value is used; 0 slots: until the receiver stands there
};
struct Stuck {
  int pp = 0;
  int instruction = 0;  ///< where that rank waits
  std::string what;     ///< "pp 0 waits in ... for pp 1, which waits in ... for pp 0"
};
/// Null if every rank reaches its end.
std::optional<Stuck> find_deadlock(const Program& program, Delivery delivery, int slots = 0);
/// The least number of slots with which blocking sends and receives reach the end; -1 if no number does.
int least_slots(const Program& program);
/// Messages of an ordered pair that come in another order than they are used in: places where the two orders differ.
/// More than 0: without tags or posted receives the values would be mixed up.
struct Disorder {
  int from = 0, to = 0, places = 0;
};
std::vector<Disorder> find_disorder(const Program& program);

}  // namespace sextant
