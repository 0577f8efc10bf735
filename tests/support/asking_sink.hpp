// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Error sink that calls back into the object whose failure it receives.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <utility>

#include <cuota/core/error_sink.hpp>

namespace support {

/// While it exists, the error sink calls the previous sink, then ask(). Errors that ask() causes do not call ask() again.
class asking_sink {
public:
    explicit asking_sink(std::function<void()> ask)
        : before_{cuota::set_error_sink([this, ask = std::move(ask)](std::exception const& error) {
              before_(error);
              if (is_asking_.exchange(true)) return;
              (void)cuota::report_failure_of(ask);
              is_asking_ = false;
          })} {}
    asking_sink(asking_sink const&) = delete;
    asking_sink& operator=(asking_sink const&) = delete;
    ~asking_sink() { cuota::set_error_sink(std::move(before_)); }

private:
    cuota::error_sink before_;
    std::atomic<bool> is_asking_ = false;
};

}  // namespace support
