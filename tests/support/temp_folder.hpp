// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A temporary folder that is removed with its content when its scope ends.
#pragma once

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include <stdlib.h>

namespace support {

class temp_folder {
public:
    temp_folder() {
        path_ = (std::filesystem::temp_directory_path() / "cuota-test-XXXXXX").string();
        if (::mkdtemp(path_.data()) == nullptr)
            throw std::system_error{errno, std::generic_category(), path_};
    }
    temp_folder(temp_folder const&) = delete;
    temp_folder& operator=(temp_folder const&) = delete;
    ~temp_folder() {
        std::error_code ignored;  // files that cannot be removed stay in the system's temporary folder
        std::filesystem::remove_all(path_, ignored);
    }

    [[nodiscard]] std::string const& path() const noexcept { return path_; }
    [[nodiscard]] std::string path(std::string_view name) const { return path_ + '/' + std::string{name}; }

    /// Creates or replaces a file and returns its path.
    std::string write(std::string_view name, std::span<std::byte const> bytes) const {
        return write(name, std::string_view{reinterpret_cast<char const*>(bytes.data()), bytes.size()});
    }
    std::string write(std::string_view name, std::string_view text) const {
        std::string const whole = path(name);
        std::ofstream out{whole, std::ios::binary | std::ios::trunc};
        out.write(text.data(), static_cast<std::streamsize>(text.size())).flush();
        if (!out) throw std::runtime_error{"cannot write " + whole};
        return whole;
    }
    /// Overwrites one byte of a file in place, without rewriting the rest.
    void overwrite(std::string_view name, std::size_t offset, char byte) const {
        std::fstream file{path(name), std::ios::binary | std::ios::in | std::ios::out};
        file.seekp(static_cast<std::streamoff>(offset)).put(byte).flush();
        if (!file) throw std::runtime_error{"cannot write " + path(name)};
    }

private:
    std::string path_;
};

}  // namespace support
