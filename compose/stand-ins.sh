#!/usr/bin/env bash
# Builds stand-ins for the images that docker-compose.yml names, for a machine that reaches Debian's mirror and Maven Central but no
# registry: Debian's Redis 7.0 and MariaDB 10.11, Kafka's own jars, and of the official images' start scripts what that file needs.
# Needs root, debootstrap, Maven and a Docker engine. Takes some minutes and 3 GB. Before the official images are pulled:
#   docker rmi apache/kafka:4.3.1 redis:7 mariadb:10.11 debian:trixie-slim
set -euo pipefail
cd "$(dirname "$0")"
mirror=${MIRROR:-http://deb.debian.org/debian}
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT

# base <suite>: a minimal Debian as an image.
base() {
    debootstrap --variant=minbase "$1" "$work/$1" "$mirror" >"$work/$1.log" || { tail "$work/$1.log" >&2; exit 1; }
    tar -C "$work/$1" -c . | docker import - "debian:$1-slim"
}

# image <tag> <package>: the Dockerfile's other lines come from standard input, its files from the folder named as the package.
image() {
    mkdir -p "$work/$2"
    {
        echo 'FROM debian:bookworm-slim'
        echo "RUN apt-get update && apt-get install -y --no-install-recommends $2 && rm -rf /var/lib/apt/lists/*"
        cat
    } >"$work/$2/Dockerfile"
    # The host's network, since that is what reaches the mirror.
    docker build --network host --tag "$1" "$work/$2"
}

base trixie
base bookworm

image redis:7 redis-server <<'END'
WORKDIR /data
ENTRYPOINT ["bash", "-c", "exec \"$@\" --protected-mode no", "start"]
CMD ["redis-server"]
END

mkdir "$work/mariadb-server"
cat >"$work/mariadb-server/start" <<'END'
#!/usr/bin/env bash
set -eu
if [ ! -d /var/lib/mysql/mysql ]; then
    mariadb-install-db --user=mysql --datadir=/var/lib/mysql --skip-test-db
    cat /docker-entrypoint-initdb.d/*.sql >/run/first.sql
    set -- --init-file=/run/first.sql "$@"
fi
exec mariadbd --user=mysql --bind-address=0.0.0.0 "$@"
END
image mariadb:10.11 mariadb-server <<'END'
# What the package made there would become the contents of a new volume.
RUN rm -rf /var/lib/mysql/* && mkdir -p /run/mysqld /docker-entrypoint-initdb.d && chown mysql /run/mysqld
COPY start /
ENTRYPOINT ["bash", "/start"]
END

mvn --batch-mode --quiet --file kafka/pom.xml dependency:copy-dependencies "-DoutputDirectory=$work/default-jre-headless/jars"
cat >"$work/default-jre-headless/start" <<'END'
#!/usr/bin/env bash
# KAFKA_NODE_ID=1 becomes node.id=1, and so on.
set -eu
for variable in ${!KAFKA_*}; do
    [ "$variable" = KAFKA_HEAP_OPTS ] && continue
    setting=${variable#KAFKA_}
    setting=${setting,,}
    echo "${setting//_/.}=${!variable}"
done >/server.properties
java -cp '/jars/*' kafka.tools.StorageTool format --ignore-formatted --cluster-id "$CLUSTER_ID" --config /server.properties
exec java ${KAFKA_HEAP_OPTS:-} -cp '/jars/*' kafka.Kafka /server.properties
END
image apache/kafka:4.3.1 default-jre-headless <<'END'
COPY jars /jars
COPY start /
ENTRYPOINT ["bash", "/start"]
END
