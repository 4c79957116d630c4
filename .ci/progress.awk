# Shows in one line how far pip has come, and its own words only where it fails. Its input is what pip says, and then a
# line "exit N". `terminal` is 1 where somebody looks; without, each stage is a line once, though pip goes to and fro.
function tell(stage, text) {
    if (terminal) {
        printf "\r\033[K  %s", text
        fflush()
    } else if (!(stage in told)) {
        print "  " stage " …"
        fflush()
    }
    told[stage]
    last = stage
}
/^exit [0-9]+$/ { code = $2; next }
{ lines[++count] = $0 }
/^ *Collecting / { tell("looking for packages", "looking for packages: " ++found) }
/^ *(Downloading|Using cached) / { tell("fetching packages", "fetching packages: " ++fetched) }
/^Installing collected packages/ { tell("installing packages", "installing " split($0, names, ",") " packages") }
END {
    if (terminal && last != "") printf "\r\033[K"
    if (code != 0) for (number = 1; number <= count; number++) print lines[number]
    exit code
}
