package ignore

// Defaults are the rules every folder starts with, in .gitignore syntax. The
// measure: nobody looks for it, or a program rewrites it all the time, or a
// package manager can bring it back, or it is a secret, which nobody may come
// upon by searching. Folders that people may also use for
// their own papers (build, vendor, out, Library) are left to the rule files.
const Defaults = `
# hidden: version control, editors, caches, virtual environments, .DS_Store
.*

# keys and passwords, by the names that programs give them. *.key is Keynote's
# too: such a file is never opened, and its place in the ledger says so.
id_rsa
id_dsa
id_ecdsa
id_ecdsa_sk
id_ed25519
id_ed25519_sk
*.pem
*.p8
*.p12
*.pfx
*.pkcs12
*.ppk
*.jks
*.jceks
*.keystore
*.keychain
*.keychain-db
*.kdb
*.kdbx
*.gpg
.env*
*.env
.netrc
_netrc
.npmrc
.pypirc
.pgpass
.git-credentials
.htpasswd
htpasswd
credentials
credentials.json
credentials.csv
credentials.toml
credentials.yml.enc
accessKeys.csv
*_accessKeys.csv
rootkey.csv
client_secret*.json
service-account*.json
service_account*.json
application_default_credentials.json
kubeconfig
*.kubeconfig
terraform.tfstate
terraform.tfstate.backup

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
