/** A server is recognized by its host name: our tag, shortened if it exceeds the vendor's limit. */
const MAX_CHARS = 32
const PREFIX = 'berth-'

/** Removes the common prefix from a tag that is too long, as tags of high ids are. */
export function hostNameOf(tag: string): string {
  return tag.length <= MAX_CHARS ? tag : tag.slice(PREFIX.length)
}

/** Empty: the server is not ours. */
export function tagOfHost(hostName: string): string {
  if (hostName.startsWith(PREFIX)) return hostName
  return /^[0-9a-f]+-\d+-[0-9a-f]{8}$/.test(hostName) ? `${PREFIX}${hostName}` : ''
}
