#!/bin/sh
# Install HTCondor-CE from its source archive, or without one the configuration that stands in for it.
set -eu
cd /usr/src/ce

# Debian's blahp 23.9 calls a method that Python 3.12 has no more: each query of a job's state fails.
sed -i 's/self\.readfp(/self.read_file(/' "$(dpkg -L condor | grep '/blah\.py$')"
# It queries Slurm once in a minute, which is long for a test.
sed -i 's/^cache_timeout = 60$/cache_timeout = 5/' /usr/libexec/blahp/slurm_status.py
# The environment of HTCondor's daemons is not that of pilots.
echo 'echo "#SBATCH --export=NIL"' >>/etc/blahp/slurm_local_submit_attributes.sh

if [ -s source.tar.gz ]; then
  mkdir source root
  tar -xzf source.tar.gz -C source --strip-components=1
  make -C source SHELL=/bin/bash entrypoint DESTDIR="$PWD/root" INSTALL_PYTHON_DIR=usr/lib/python3/dist-packages >/dev/null
  # The configuration of other batch systems, of the web page and of the accounting of EGI.
  for name in bosco condor lsf pbs sge; do rm root/*/condor-ce/config.d/02-ce-$name*.conf root/*/*/condor-ce/config.d/02-ce-$name*.conf; done
  rm root/*/condor-ce/config.d/05-ce-* root/usr/share/condor-ce/config.d/05-ce-view* root/usr/share/condor-ce/config.d/05-ce-health*
  rm root/*/condor*/config.d/50-*apel* root/usr/share/condor-ce/config.d/50-*apel* root/usr/lib/systemd/system/*apel*
  # A name of later versions of HTCondor.
  sed -i 's/security:recommended$/security:recommended_v9_0/' root/usr/share/condor-ce/config.d/01-common-auth-defaults.conf
  # /run belongs to tmpfiles.d, and /var/run and /var/lock are links to it.
  rm -r root/var/run root/var/lock
  tar -C root -c . | tar -x -C / --no-same-owner --keep-directory-symlink
else
  cp -r stand-in/etc stand-in/usr /
  for name in config_val history hold off on ping q qedit reconfig release restart rm router_q status submit transform_ads version; do
    printf '#!/bin/sh\nCONDOR_CONFIG=/etc/condor-ce/condor_config exec condor_%s "$@"\n' "$name" >/usr/bin/condor_ce_$name
    chmod 755 /usr/bin/condor_ce_$name
  done
fi
install -d -o condor -g condor /var/lib/condor-ce /var/lib/condor-ce/spool /var/lib/condor-ce/execute /var/log/condor-ce
install -d -o condor -g condor -m 1777 /var/log/condor-ce/user
install -d -m 700 /etc/condor-ce/passwords.d /etc/condor-ce/tokens.d
