# manual.awk: fills in train/halfstep.3.in: the version, the date, and the first C program of README.md.
BEGIN {
    epoch = ENVIRON["SOURCE_DATE_EPOCH"]
    if (epoch != "") ("date -u -d @" epoch " +%Y-%m-%d") | getline date
}
/^@PROGRAM@$/ {
    while ((getline line < "README.md") > 0 && line != "```c") continue
    while ((getline line < "README.md") > 0 && line != "```") {
        gsub(/\\/, "\\e", line)
        gsub(/-/, "\\-", line)
        gsub(/'/, "\\(aq", line)
        gsub(/\^/, "\\(ha", line)
        gsub(/~/, "\\(ti", line)
        print (line ~ /^\./ ? "\\&" : "") line
    }
    next
}
{
    gsub(/@VERSION@/, version)
    gsub(/@DATE@/, date)
    print
}
