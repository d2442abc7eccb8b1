#!/bin/sh
# PID 1 of the machine of test/vm: first in the initramfs, then again on the disk.
#
# In the initramfs: loads the drivers of the disk, mounts it, and goes on there. On the disk: mounts
# what a machine has mounted, control groups as systemd lays them out, and runs inside.py; then
# powers off. A shell as PID 1 waits for whatever is its child, so orphans are reaped.
set -u

powered_off() {
	sync
	/bin/busybox poweroff -f
}

first() {
	/bin/busybox mkdir -p /proc /dev /disk
	/bin/busybox mount -t proc proc /proc
	/bin/busybox mount -t devtmpfs dev /dev
	while read -r module; do
		/bin/busybox insmod "$module" || echo "vm: $module does not load"
	done </modules
	/bin/busybox mount -t ext4 /dev/vda /disk || powered_off
	/bin/busybox cp /init /bin/busybox /disk/
	/bin/busybox umount /proc /dev
	exec /bin/busybox switch_root /disk /init
}

# The groups of a systemd machine; controllers are handed on everywhere but to leaves.
groups() {
	mount -t cgroup2 -o nsdelegate cgroup /sys/fs/cgroup
	cd /sys/fs/cgroup || powered_off
	mkdir init.scope system.slice user.slice
	echo 1 >init.scope/cgroup.procs
	for group in . system.slice user.slice; do
		echo "+cpu +memory +pids" >$group/cgroup.subtree_control
	done
	cd /
}

second() {
	export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
	mount -t proc proc /proc
	mount -t sysfs sys /sys
	mount -t devtmpfs dev /dev
	mkdir -p /dev/pts /dev/shm /results /vm
	mount -t devpts -o gid=5,mode=620,ptmxmode=666 pts /dev/pts
	mount -t tmpfs -o mode=1777 shm /dev/shm
	mount -t tmpfs -o mode=755 run /run
	mount -t securityfs sec /sys/kernel/security
	mount -t ext4 /dev/vdb /vm
	/busybox ip link set lo up
	hostname vm
	groups
	while read -r path; do
		mkdir -p "$path"
		mount --bind "/vm/tree$path" "$path"
	done </vm/paths
	while read -r module; do
		/busybox insmod "$module" || echo "vm: $module does not load"
	done </vm/modules
	/usr/bin/python3 /vm/inside.py /vm/order.json
	sync
	tar -C / -cf /dev/vdc results
	powered_off
}

if [ -e /modules ]; then
	first
else
	second
fi
