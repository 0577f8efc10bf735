// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/detail/datasets/other_content.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <cuota/data/datasets/cifar_dataset.hpp>
#include <cuota/data/datasets/idx_dataset.hpp>
#include <cuota/data/datasets/npy_dataset.hpp>
#include <cuota/data/datasets/raw_dataset.hpp>
#if __has_include(<nlohmann/json.hpp>)
#include <cuota/data/datasets/safetensors_dataset.hpp>
#endif

#include "support/catch.hpp"
#include "support/samples.hpp"
#include "support/temp_folder.hpp"
#include "support/thrown.hpp"

namespace {

using support::mentions;

std::string const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 23802932552\n";

std::vector<std::pair<std::string, std::string>> const known{
    {pointer, "is a Git LFS pointer, not the data: run 'git lfs pull'"},
    {"<!DOCTYPE html><html><body>404: not found</body></html>\n", "is an HTML page"},
    {"\xef\xbb\xbf\r\n  <HTML lang=en>" + std::string(1000, ' '), "is an HTML page"},
    {"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", "is an XML document"},
    {"\x1f\x8b\x08 and so on", "is compressed by gzip"},
    {"PK\3\4 and so on", "is a zip archive"},
    {"", "the file is empty"},
};

std::string found(std::string const& bytes) {
    support::temp_folder const folder;
    return cuota::detail::other_content(cuota::file{folder.write("x", bytes)});
}

}  // namespace

TEST_CASE("other content in place of data is recognized by its first bytes", "[data][other_content]") {
    for (auto const& [bytes, what] : known) {
        INFO(bytes);
        CHECK(mentions(found(bytes), what));
    }
    for (std::string const& data :
         {std::string{"\x93NUMPY"}, std::string(1, '\0'), std::string{"<"}, std::string{"<htm"},
          std::string{"version 1"}, std::string{"  "}, std::string{"\x1f"}, std::string{"<!doctype xml"}}) {
        INFO(data);
        CHECK(found(data).empty());
    }
}

TEST_CASE("every dataset that checks a header or a size reports other content in place of its data",
          "[data][other_content]") {
    std::vector<std::pair<std::string, std::function<void(std::string const&)>>> datasets{
        {"npy", [](std::string const& path) { cuota::npy_dataset const from(path); }},
        {"idx", [](std::string const& path) { cuota::idx_dataset const from(path); }},
        {"raw",
         [](std::string const& path) {
             cuota::raw_dataset const from{
                 path, {.header = 2000, .fields = {{"x", cuota::element_type::u8, {7919}}}}};
         }},
        {"cifar", [](std::string const& path) {
             cuota::cifar_dataset const from{cuota::cifar_set::cifar_10, {path}};
         }}};
#if __has_include(<nlohmann/json.hpp>)
    datasets.emplace_back("safetensors",
                          [](std::string const& path) { cuota::safetensors_dataset const from(path); });
#endif
    support::temp_folder const folder;
    for (auto const& [bytes, what] : known)
        for (auto const& [name, open] : datasets) {
            if (bytes.empty() && name == "cifar") continue;  // an empty file has no records: no samples
            INFO(name << ": " << bytes);
            std::string const path = folder.write("x", bytes);
            auto const error = support::thrown<cuota::data_error>([&, &open = open] { open(path); });
            CHECK(mentions(error.why(), what));
            CHECK(error.file() == path);
            CHECK(error.offset() == 0);
        }
}
