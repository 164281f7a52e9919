/*
Reads files of the machine from a language that has no guard of its own.

Kind: break-out
Expect: FAILED, RUNTIME_ERROR
*/
const fs = require('fs');
let got = false;
for (const path of ['/etc/shadow', '/root/.ssh', '/root/.bashrc', '/proc/1/environ', '/var/log/syslog', '/home']) {
  try {
    got = got || (fs.statSync(path).isDirectory() ? fs.readdirSync(path).length > 0 : fs.readFileSync(path).length > 0);
  } catch (error) {}
}
console.log(got ? 2 : 3);
