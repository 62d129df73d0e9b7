# Kubernetes' device plugin, between npud's units and a kubelet that is played, and what podman
# makes of its answers. A part of inside.sh, which has the helpers; podman-inside.sh comes before.
# shellcheck shell=bash disable=SC2154 # $line: ask()

check_kubernetes() {
    local folder=/var/lib/kubelet/device-plugins plugin

    mkdir -p "$folder"
    /usr/bin/python3 examples/kubernetes/npud-device-plugin >plugin.log 2>&1 &
    plugin=$!
    start_client kubelet /usr/bin/python3 kubelet_orders.py "$folder"
    ask kubelet
    equal "the device plugin registers with kubelet" registered "$line"
    ask kubelet list
    equal "... and lists the NPUs" "0=Healthy 1=Healthy" "$line"
    ask kubelet "allocate 1"
    equal "... and names one for CDI" npud/npu=1 "$line"
    equal "... by which a container gets it" "1 devices" \
        "$(container --device "$line" program client count 2>&1)"
    check "an NPU is lost" npuctl inject lose-device --device=0
    ask kubelet list
    equal "... and kubelet is told" "0=Unhealthy 1=Healthy" "$line"
    check "... and comes back" npuctl inject clear
    ask kubelet list
    equal "... and kubelet is told" "0=Healthy 1=Healthy" "$line"
    check "npud ends, with its sockets" systemctl stop npud.socket npud-admin.socket
    ask kubelet list
    equal "... and no NPU is well" "0=Unhealthy 1=Unhealthy" "$line"
    check "... and they are back" systemctl start npud.socket npud-admin.socket
    ask kubelet list
    equal "... and so are the NPUs" "0=Healthy 1=Healthy" "$line"
    kill "$plugin"
    wait "$plugin"
    equal "the plugin ends, and leaves kubelet's socket alone" kubelet.sock "$(ls "$folder")"
    end_client kubelet
}
