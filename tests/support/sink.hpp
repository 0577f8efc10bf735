// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/error_sink.hpp>

namespace support {

/// Captures errors that are reported to the error sink; the destructor restores the previous sink. Threads: any thread may report.
class captured_errors {
public:
    captured_errors()
        : before_{cuota::set_error_sink([to = caught_](std::exception const& error) {
              std::scoped_lock const lock{to->guard};
              to->texts.emplace_back(error.what());
          })} {}
    captured_errors(captured_errors const&) = delete;
    captured_errors& operator=(captured_errors const&) = delete;
    ~captured_errors() { cuota::set_error_sink(std::move(before_)); }

    /// Returns the errors since the last call.
    [[nodiscard]] std::vector<std::string> take() {
        std::scoped_lock const lock{caught_->guard};
        return std::exchange(caught_->texts, {});
    }
    [[nodiscard]] std::size_t count() const {
        std::scoped_lock const lock{caught_->guard};
        return caught_->texts.size();
    }

private:
    struct caught {
        std::mutex guard;
        std::vector<std::string> texts;
    };
    std::shared_ptr<caught> caught_ = std::make_shared<caught>();
    cuota::error_sink before_;
};

[[nodiscard]] inline bool has(std::string const& text, std::string const& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace support
