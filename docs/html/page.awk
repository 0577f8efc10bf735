# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
#
# A page as Doxygen 1.9.4 understands it: blocks have a language and no name, headings have the names that GitHub gives
# them, and what stands outside of docs/ is named instead of linked.
function slug(text) {
    text = tolower(text)
    gsub(/[^a-z0-9_ -]/, "", text)
    gsub(/ /, "-", text)
    return page "_" text
}
FNR == 1 {  # design/ledger.md is the page design_ledger, and design/README.md is design
    page = FILENAME; sub(/.*\//, "", page); sub(/\.md$/, "", page)
    folder = FILENAME ~ /design\/[^\/]*$/ ? "design_" : ""
    is_index = page == "README"
    page = is_index && folder != "" ? "design" : folder page
}
/^```/ {
    in_block = !in_block
    if (in_block) {
        language = substr($1, 4)
        print language == "cpp" ? "```{.cpp}" : "```{.unparsed}"
        next
    }
    print; next
}
in_block { print; next }
/^# / && page != "README" { print $0 " {#" page "}"; next }
/^##+ / { print $0 " {#" slug(substr($0, index($0, " ") + 1)) "}"; next }
{
    while (match($0, /\[[^]`]*`[^]]*\]\(/)) {  # the text of a link is not Markdown to it
        text = substr($0, RSTART, RLENGTH)
        gsub(/`/, "", text)
        $0 = substr($0, 1, RSTART - 1) text substr($0, RSTART + RLENGTH)
    }
    while (match($0, /\]\(#[^)]*\)/))
        $0 = substr($0, 1, RSTART) "(\001" page "_" substr($0, RSTART + 3, RLENGTH - 4) ")" substr($0, RSTART + RLENGTH)
    gsub(/\(\001/, "(#")
    gsub(/\]\(design\/README\.md\)/, "](design.md)")
    while (match($0, /\]\([a-z_]+\.md\)/)) {  # an index has the other pages below it, in its order
        to = folder substr($0, RSTART + 2, RLENGTH - 6)
        $0 = substr($0, 1, RSTART) (is_index ? "(@subpage " : "(@ref ") to ")" substr($0, RSTART + RLENGTH)
    }
    while (match($0, /\[[^\]]*\]\(\.\.\/[^)]*\)/)) {
        link = substr($0, RSTART, RLENGTH)
        text = link; sub(/^\[/, "", text); sub(/\].*/, "", text)
        to = link; sub(/.*\]\(\.\.\//, "", to); sub(/\)$/, "", to)
        $0 = substr($0, 1, RSTART - 1) text " (`" to "`)" substr($0, RSTART + RLENGTH)
    }
    print
}
