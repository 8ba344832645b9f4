#pragma once
// Messages between ranks that share no memory.
#include <cstdint>

#include "sextant/runtime/comm/board.h"

namespace sextant {

/// A small control message: what a rank of the own node would read from a Desk.
struct Note {
  enum class Kind : std::uint8_t { kPost, kLetter, kFailure } kind = Kind::kPost;
  std::uint64_t group = 0, number = 0;
  Fingerprint print;
  std::int64_t to_you = 0, from_you = 0;  ///< elements, of an all_to_all
  std::int32_t channel = 0;               ///< of the data that follows
  std::int32_t tag = 0;                   ///< of a message; of a failure, what the run exits with
};

class Wire {
 public:
  virtual ~Wire() = default;
  using Request = std::uint64_t;
  virtual Request send(int to, const void* data, std::int64_t bytes, int channel) = 0;
  virtual Request receive(int from, void* data, std::int64_t bytes, int channel) = 0;
  virtual bool done(Request request) = 0;
  /// Sends or receives are under way: any call may touch their buffers.
  virtual bool is_busy() const = 0;
  virtual void post(int to, const Note& note) = 0;
  virtual bool flushed() = 0;                    ///< whether all notes have left
  virtual bool take(int& from, Note& note) = 0;  ///< the next note that has arrived, if any
  /// A number for the data of the next operation with `to`; the notes carry it over.
  virtual int new_channel(int to) = 0;
};

}  // namespace sextant
