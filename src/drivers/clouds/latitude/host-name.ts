/** A server is found again by its host name, which is our tag as far as the vendor's limit allows. */
const MAX_CHARS = 32
const PREFIX = 'berth-'

/** Tags of high ids are too long: they lose the word that all of ours begin with. */
export function hostNameOf(tag: string): string {
  return tag.length <= MAX_CHARS ? tag : tag.slice(PREFIX.length)
}

/** Empty: not one of ours. */
export function tagOfHost(hostName: string): string {
  if (hostName.startsWith(PREFIX)) return hostName
  return /^[0-9a-f]+-\d+-[0-9a-f]{8}$/.test(hostName) ? `${PREFIX}${hostName}` : ''
}
