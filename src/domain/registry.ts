/** Tells the registry of an image. A login is for the images of one registry, and no other may see it. */

const DEFAULT_SERVER = 'docker.io'
const DEFAULT_SERVERS = new Set(['index.docker.io', 'registry-1.docker.io', 'registry.hub.docker.com'])

/** Whether the image, named with its registry or without one, is of the registry that a login is for. */
export function isOfRegistry(image: string, server: string): boolean {
  return serverOf(registryHost(image) ?? DEFAULT_SERVER) === serverOf(server)
}

/** Docker's rule for telling a host from the first part of a path. undefined: the default registry. */
export function registryHost(image: string): string | undefined {
  const slash = image.indexOf('/')
  if (slash === -1) return undefined
  const first = image.slice(0, slash)
  return /[.:]/.test(first) || first === 'localhost' || /[A-Z]/.test(first) ? first : undefined
}

/** Accepts other spellings of a server: `docker login` writes docker.io as `https://index.docker.io/v1/`. */
function serverOf(server: string): string {
  const host = server
    .trim()
    .toLowerCase()
    .replace(/^https?:\/\//, '')
    .replace(/\/.*$/, '')
    .replace(/:443$/, '')
  return DEFAULT_SERVERS.has(host) ? DEFAULT_SERVER : host
}
