#!/bin/sh
# Make the keys and certificates of this host, because the image has none. ce-first-start.service runs this script.
#   ca.crt, ca.key   an authority, which this host trusts
#   ce.crt, ce.key   the certificate of the CE and of the issuer of SciTokens
#   issuer.key       signs SciTokens
set -eu
cd /etc/ce-lab
umask 077
curve="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc"
# shellcheck disable=SC2086 # options
openssl req -x509 $curve -days 3650 -subj "/CN=Authority of the lab's CE" -keyout ca.key -out ca.crt \
  -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign
# shellcheck disable=SC2086 # options
openssl req $curve -subj /CN=ce -addext subjectAltName=DNS:ce -keyout ce.key -out ce.csr
openssl x509 -req -in ce.csr -CA ca.crt -CAkey ca.key -days 3650 -copy_extensions copyall -out ce.crt
openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out issuer.key
chmod 644 ca.crt ce.crt
cp ca.crt /usr/local/share/ca-certificates/ce-lab.crt
update-ca-certificates
head -c 48 /dev/urandom >/etc/condor-ce/passwords.d/POOL
