// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace support {

/// A thread that runs one task at a time and is idle in between. Its thread record, and so the stocks that it holds, belong to no other
/// thread.
class worker {
public:
    worker()
        : thread_{[this] {
              for (std::unique_lock lock{guard_};;) {
                  changed_.wait(lock, [this] { return task_ != nullptr; });
                  if (!*task_) return;
                  (*task_)();
                  task_ = nullptr;
                  changed_.notify_all();
              }
          }} {}
    ~worker() {
        std::function<void()> const end;
        run(end);
        thread_.join();
    }
    void run(std::function<void()> const& task) {
        std::unique_lock lock{guard_};
        task_ = &task;
        changed_.notify_all();
        if (task) changed_.wait(lock, [this] { return task_ == nullptr; });
    }

private:
    std::mutex guard_;
    std::condition_variable changed_;
    std::function<void()> const* task_ = nullptr;
    std::thread thread_;
};

}  // namespace support
