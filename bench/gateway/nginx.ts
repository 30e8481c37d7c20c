/** nginx as a plain reverse proxy to the same upstream: one worker, no log, keep-alive on both sides. */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { freePort, stopProcess, untilListening, watchProcess } from './child.ts'
import { plainHeaders, type Side } from './side.ts'

export interface NginxOptions {
  readonly name: string
  readonly upstreamPort: number
  /** Extra directives of the one location. */
  readonly directives?: readonly string[]
}

const programs = ['/usr/sbin/nginx', '/usr/local/sbin/nginx', '/usr/local/bin/nginx', '/opt/homebrew/bin/nginx']

export async function startNginx(options: NginxOptions): Promise<Side> {
  const program = programs.find((file) => existsSync(file))
  if (program === undefined) {
    throw new Error('nginx, which this bench compares with, is not installed: apt-get install nginx-light')
  }
  const dir = await mkdtemp(path.join(os.tmpdir(), 'berth-bench-nginx-'))
  const port = await freePort()
  const file = path.join(dir, 'nginx.conf')
  await writeFile(file, configOf(options, dir, port))
  const child = spawn(program, ['-p', dir, '-c', file], { stdio: ['ignore', 'inherit', 'inherit'] })
  const { pid, ended } = watchProcess(child, options.name)
  await untilListening(port, ended, options.name)
  return {
    name: options.name,
    port,
    pid,
    headers: plainHeaders,
    stop: async () => {
      await stopProcess(child, ended, 'SIGTERM')
      await rm(dir, { recursive: true, force: true })
    },
  }
}

/** `keepalive_requests` is raised from 1,000 to leave reconnects out of the comparison. */
function configOf({ upstreamPort, directives = [] }: NginxOptions, dir: string, port: number): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${path.join(dir, name)};`,
  )
  return `
${process.getuid?.() === 0 ? 'user root;' : ''}
daemon off;
worker_processes 1;
pid ${path.join(dir, 'nginx.pid')};
error_log stderr error;
events { worker_connections 8192; }
http {
  access_log off;
  client_max_body_size 20m;
  keepalive_requests 1000000000;
  ${temporary.join('\n  ')}
  upstream engine {
    server 127.0.0.1:${upstreamPort};
    keepalive 64;
    keepalive_requests 1000000000;
  }
  server {
    listen 127.0.0.1:${port} backlog=4096;
    location / {
      proxy_pass http://engine;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      ${directives.join('\n      ')}
    }
  }
}
`
}
