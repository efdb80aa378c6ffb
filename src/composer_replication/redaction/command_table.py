"""Which tools take a secret on their command line, and where. One row per way of asking for it.

`programs [words that follow]: places`. A place is an option whose value is secret, glued to it or the word after it:
`-p`, `--password`; `-p+` only glued, since alone it asks for the password. With a sign behind it only the part after
that sign is secret: `-u:` takes `user:secret`. `#2` is the second plain word after the row's words;
`>word` is whatever follows that word; `@` is what follows the name of a secret. A row with `-b` among its words needs
that flag.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

ROWS = """
sshpass: -p
docker login,podman login,nerdctl login,buildah login,skopeo login,oras login,helm registry login: -p --password
crane auth login,az login,az acr login,oc login,argocd login,cf login,ibmcloud login,heroku login: -p --password
skopeo,podman pull,podman push,buildah pull,buildah push: --creds: --src-creds: --dest-creds:
curl: -u: --user: -U: --proxy-user: --pass --proxy-pass --tlspassword --oauth2-bearer
http,https,xh: -a: --auth:
wget,aria2c: --password --http-password --ftp-password --proxy-password --http-passwd --ftp-passwd
keytool: -storepass -keypass -srcstorepass -deststorepass -srckeypass -destkeypass -new
jarsigner: -storepass -keypass
apksigner: --ks-pass: --key-pass:
osslsigncode: -pass
mysql,mysqldump,mysqlimport,mysqlshow,mysqlcheck,mysqlsh,mycli: -p+ --password
mariadb,mariadb-dump,mariadb-admin: -p+ --password
mysqladmin: -p+ --password >password
redis-cli: -a --pass
mongo,mongosh,mongodump,mongorestore,mongoexport,mongoimport: -p --password
sqlcmd,bcp,tsql,isql: -P
sqlplus: #1/
cqlsh,influx,arangosh: -p -password --password
clickhouse-client,clickhouse: --password
snowsql,impala-shell,beeline: -p
aws configure set,npm config set,pnpm config set,yarn config set,pip config set,git config: @
htpasswd -n: #2
htpasswd -b: #3
openssl passwd: #1 #2
openssl: -passin: -passout: -pass: -k -K -password:
ldapsearch,ldapadd,ldapmodify,ldapdelete,ldapwhoami,ldapcompare: -w
ldappasswd: -w -s -a
smbclient,smbmap,rpcclient,winexe,smbget: -U% --user%
lftp: -u,
ncftpput,ncftpget: -p
zip,unzip: -P
7z,7za,7zz,7zr,rar,unrar: -p+ -hp+
gpg,gpg2,gpgsm: --passphrase
ssh-keygen: -N -P
poetry config: #3 @
poetry publish,twine upload: -p --password
cargo login,vault login,mkpasswd,rclone obscure: #1
cargo publish,fly deploy,flyctl deploy: --token
dotnet nuget push,nuget push: -k --api-key -ApiKey
nuget sources add: -Password
ngrok: >authtoken >add-authtoken
kubectl: --from-literal= --docker-password --token --password
gh secret set,glab variable set: -b --body
rabbitmqctl add_user,rabbitmqctl change_password,wpa_passphrase: #2
nmcli: >password
mosquitto_pub,mosquitto_sub,ipmitool: -P
plink,pscp,psftp,putty: -pw
xfreerdp,wlfreerdp,xfreerdp3: /p:
cmdkey: /pass:
schtasks,runas: /RP
psexec,evil-winrm,rdesktop,veracrypt,steghide: -p --password
security unlock-keychain,security create-keychain,security set-keychain-password: -p
security add-generic-password,security add-internet-password: -w
security import: -P
useradd,usermod: -p --password
svn: --password
wp user create,wp user update,wp config create,wp core install: --user_pass --dbpass --admin_password
pdftk: >input_pw >user_pw >owner_pw
qpdf: --password
xcrun notarytool,xcrun altool: -p --password
doctl auth init: -t --access-token
convertto-securestring: #1 -String
tailscale up,tailscale login: --authkey --auth-key
snmpwalk,snmpget: -A -X
"""


class CommandRow(NamedTuple):
    program: bytes
    words: tuple[bytes, ...]
    """They follow the program, other options left out."""
    flag: bytes | None
    options: dict[bytes, bytes]
    """By name, with the sign after which the secret begins, if any."""
    only_glued: frozenset[bytes]
    plain_words: dict[int, bytes]
    """By number from 1 on, with the sign."""
    following: frozenset[bytes]
    after_names: bool

    @property
    def literal(self) -> str:
        return b" ".join((self.program, *self.words)).decode().lower() + ("" if self.words else " ")


def _row(asked: str, places: Sequence[str]) -> CommandRow:
    program, *words = asked.split()
    options: dict[bytes, bytes] = {}
    glued: set[bytes] = set()
    plain: dict[int, bytes] = {}
    for place in places:
        sign = place[-1] if place[-1] in ":%,/=" else ""
        name = place.removesuffix(sign).removesuffix("+")
        if name.startswith("#"):
            plain[int(name[1:])] = sign.encode()
        elif name[0] == "/":
            options[f"{name}:".encode()] = b""
        elif name[0] == "-":
            options[name.encode()] = sign.encode()
            if place.endswith("+"):
                glued.add(name.encode())
    return CommandRow(
        program=program.encode(),
        words=tuple(word.encode() for word in words if word[0] != "-"),
        flag=next((word[1:].encode() for word in words if word[0] == "-"), None),
        options=options,
        only_glued=frozenset(glued),
        plain_words=plain,
        following=frozenset(place[1:].encode() for place in places if place[0] == ">"),
        after_names="@" in places,
    )


def rows() -> list[CommandRow]:
    made: list[CommandRow] = []
    for line in ROWS.strip().splitlines():
        programs, places = line.split(": ", 1)
        made += [_row(asked, places.split()) for asked in programs.split(",")]
    return made
