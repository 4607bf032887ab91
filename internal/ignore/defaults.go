package ignore

// Defaults are the rules every folder starts with, in .gitignore syntax. The
// measure: nobody looks for it, or a program rewrites it all the time, or a
// package manager can bring it back. Folders that people may also use for
// their own papers (build, vendor, out, Library) are left to the rule files.
const Defaults = `
# hidden: version control, editors, caches, virtual environments, .DS_Store
.*

# dependencies and what tools make of sources
node_modules/
bower_components/
jspm_packages/
__pycache__/
site-packages/
venv/
*.egg-info/
*.dist-info/
target/debug/
target/release/
cmake-build-*/
dist/
DerivedData/
Pods/
Carthage/Build/
*.min.js
*.min.css
*.js.map
*.css.map

# lock files: long, and about nothing a person wrote
package-lock.json
npm-shrinkwrap.json
yarn.lock
pnpm-lock.yaml
bun.lock
Cargo.lock
Gemfile.lock
Pipfile.lock
composer.lock
flake.lock
poetry.lock
uv.lock
pubspec.lock
Podfile.lock
Package.resolved
go.sum

# bundles that macOS shows as one file
*.app/
*.appex/
*.bundle/
*.framework/
*.xcframework/
*.kext/
*.plugin/
*.prefPane/
*.dSYM/
*.xcarchive/
*.xcodeproj/
*.xcassets/
*.photoslibrary/
*.photolibrary/
*.aplibrary/
*.musiclibrary/
*.tvlibrary/
*.imovielibrary/
*.fcpbundle/
*.lrdata/
*.lrcat-data/
*.sparsebundle/
*.backupbundle/
Photo Booth Library/
iTunes Library.itl

# what the system keeps for itself
Library/Application Support/
Library/Caches/
Library/Containers/
Library/Developer/
Library/Group Containers/
Library/Logs/
$RECYCLE.BIN/
System Volume Information/
lost+found/
Thumbs.db
desktop.ini

# half-written and temporary
*~
~$*
*.swp
*.swo
*.tmp
*.temp
*.part
*.crdownload
*.download/
*.icloud
`
