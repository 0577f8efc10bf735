// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The errors of the library: five types, each with the facts a program or a person can act on.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include <cuota/core/label.hpp>
#include <cuota/core/refusal.hpp>

namespace cuota::inline v0 {

/// A CUDA call failed. Carries the code, the call and the place that made it.
class cuda_error : public std::runtime_error {
public:
    cuda_error(int code, std::string const& call, std::string const& why, place where)
        : std::runtime_error{"cuota::cuda_error: " + call + " failed with " + why + suffix(where)},
          code_{code},
          call_{std::make_shared<std::string const>(call)},
          where_{where} {}

    [[nodiscard]] int code() const noexcept { return code_; }  ///< a cudaError_t
    [[nodiscard]] std::string const& call() const noexcept { return *call_; }
    [[nodiscard]] place where() const noexcept { return where_; }

private:
    static std::string suffix(place where) {
        std::string const place = place_text(where);
        return place.empty() ? "" : " (" + place + ')';
    }
    int code_;
    std::shared_ptr<std::string const> call_;
    place where_;
};

/// Memory was refused: by a budget (then it is a budget_exceeded), by a pool's cap, or by the device itself.
/// Whoever refused did so before it took anything: what was held before is held after, and nothing more.
class out_of_memory : public std::bad_alloc {
public:
    explicit out_of_memory(refusal facts) : out_of_memory{"out_of_memory", std::move(facts)} {}

    [[nodiscard]] refusal const& facts() const noexcept { return state_->facts; }
    [[nodiscard]] char const* what() const noexcept override { return state_->text.c_str(); }

protected:
    out_of_memory(char const* type, refusal facts) {
        std::string text = refusal_text(type, facts);
        state_ = std::make_shared<state const>(state{std::move(facts), std::move(text)});
    }

private:
    struct state {
        refusal facts;
        std::string text;
    };
    std::shared_ptr<state const> state_;
};

/// A budget on the way from the asked one to its root could not hold the request.
class budget_exceeded : public out_of_memory {
public:
    explicit budget_exceeded(refusal facts) : out_of_memory{"budget_exceeded", std::move(facts)} {}
};

/// The program broke a rule of lifetime, stream, bounds or use; the message names the thing and the place.
class misuse : public std::logic_error {
public:
    explicit misuse(std::string const& what, place where = {})
        : std::logic_error{"cuota::misuse: " + what + at(where)}, where_{where} {}

    [[nodiscard]] place where() const noexcept { return where_; }

private:
    static std::string at(place where) {
        std::string const place = place_text(where);
        return place.empty() ? "" : " (" + place + ')';
    }
    place where_;
};

/// A file does not hold what it should. Names the file, the byte offset where it goes wrong, and why.
class data_error : public std::runtime_error {
public:
    data_error(std::string file, std::uint64_t offset, std::string why)
        : std::runtime_error{"cuota::data_error: " + file + ": at byte " + std::to_string(offset) + ": " +
                             why},
          facts_{std::make_shared<facts const>(facts{std::move(file), std::move(why), offset})} {}

    [[nodiscard]] std::string const& file() const noexcept { return facts_->file; }
    [[nodiscard]] std::uint64_t offset() const noexcept { return facts_->offset; }
    [[nodiscard]] std::string const& why() const noexcept { return facts_->why; }

private:
    struct facts {
        std::string file;
        std::string why;
        std::uint64_t offset;
    };
    std::shared_ptr<facts const> facts_;
};

}  // namespace cuota::inline v0
