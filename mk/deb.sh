#!/usr/bin/env bash
# Builds the Debian packages in a copy of the tree: FOLDER has the packages afterwards, and what
# dpkg-buildpackage writes about them. Times are those of debian/changelog.
# usage: mk/deb.sh FOLDER [NAME]     NAME: of the copy; in the top directory of a tree
set -eu
folder=$1
name=${2:-npud}

rm -rf "$folder"
mkdir -p "$folder/$name"
tar -c --exclude='./build*' --exclude=./.git . | tar -x -C "$folder/$name"

# The settings of the make that runs this script are not those of the packages.
jobs=$(nproc)
unset MAKEFLAGS MAKELEVEL MFLAGS MAKEOVERRIDES BUILD CC CXX CFLAGS CPPFLAGS LDFLAGS SAN WERROR
echo "deb: building the packages in a copy of the tree, $folder/$name: this takes minutes"
cd "$folder/$name"
if ! DEB_BUILD_OPTIONS="parallel=$jobs" dpkg-buildpackage -b --no-sign >../log 2>&1; then
    tail -n 40 ../log
    echo "deb: dpkg-buildpackage failed; all it said is in $folder/log"
    exit 1
fi
cd ..
rm -rf "$name"
ls ./*.deb
echo "deb: these packages are in $folder. To install npud and the library, as root:"
echo "    apt-get install ./$folder/npud_*.deb ./$folder/libaclclient1_*.deb"
