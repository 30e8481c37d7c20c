/** Finds the socket of the container engine: Docker, or Podman's Docker-compatible one. */
import fs from 'node:fs'
import { DockerClient } from '../runtimes/docker/client.ts'
import { AgentError } from './agent-error.ts'

const PROBE_MS = 10_000

export interface SocketPlaces {
  /** Set by the owner: only this one is tried. */
  readonly named?: string | undefined
  /** `unix:///run/docker.sock`. */
  readonly dockerHost?: string | undefined
  /** `/run/user/1000`: Podman without root. */
  readonly runtimeDir?: string | undefined
}

/** The first socket that responds. Throws an error that lists the attempts and the next steps. */
export async function findDockerSocket(places: SocketPlaces): Promise<string> {
  const failures: string[] = []
  for (const socket of placesOf(places)) {
    const failure = await whyNot(socket)
    if (failure === undefined) return socket
    failures.push(`${socket}: ${failure}`)
  }
  throw new AgentError('Cannot reach Docker or Podman. Containers need one of them.', [
    ...failures,
    'Install Docker (Debian: apt-get install docker.io) and start it (systemctl start docker).',
    'A user other than root must be in the docker group: run usermod -aG docker NAME, then log in again.',
    'Use --docker-socket for another socket.',
  ])
}

function placesOf({ named, dockerHost, runtimeDir }: SocketPlaces): string[] {
  if (named !== undefined) return [named.replace(/^unix:\/\//, '')]
  const host = dockerHost?.startsWith('unix://') === true ? [dockerHost.slice('unix://'.length)] : []
  const userSockets = runtimeDir === undefined ? [] : [`${runtimeDir}/docker.sock`, `${runtimeDir}/podman/podman.sock`]
  return [...new Set([...host, '/var/run/docker.sock', '/run/podman/podman.sock', ...userSockets])]
}

async function whyNot(socket: string): Promise<string | undefined> {
  if (!fs.existsSync(socket)) return 'no such file'
  const client = new DockerClient(socket)
  try {
    await client.info(AbortSignal.timeout(PROBE_MS))
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  } finally {
    await client.close()
  }
}
