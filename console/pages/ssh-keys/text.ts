/** Recognizes what people paste by mistake, so that a private key never leaves the browser. The server checks the rest. */

const types = [
  'ssh-ed25519',
  'ssh-rsa',
  'ecdsa-sha2-nistp256',
  'ecdsa-sha2-nistp384',
  'ecdsa-sha2-nistp521',
  'sk-ssh-ed25519@openssh.com',
  'sk-ecdsa-sha2-nistp256@openssh.com',
]

export function sshKeyFault(pasted: string): string | undefined {
  const text = pasted.trim()
  if (text === '') return 'Paste a public key'
  if (text.includes('PRIVATE KEY')) {
    return 'This is a private key. Paste the content of the .pub file instead.'
  }
  if (text.startsWith('---- BEGIN SSH2')) {
    return 'This is the SSH2 format. Convert it with: ssh-keygen -i -f FILE'
  }
  if (text.includes('\n')) return 'Paste a single key on one line'
  const [type = '', body = ''] = text.split(/ +/)
  if (type === 'ssh-dss') return 'DSA keys are not supported. Create a new key with: ssh-keygen -t ed25519'
  if (!types.includes(type)) {
    return types.some((keyType) => text.includes(`${keyType} `))
      ? 'Remove the text before the key. It must start with its type, such as ssh-ed25519.'
      : `A public key starts with its type, such as ssh-ed25519; this starts with “${shortened(type)}”.`
  }
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(body)) return 'The key after the type is missing or contains invalid characters'
  return undefined
}

/** The comment at the end of a key, such as "you@laptop". */
export function sshKeyComment(pasted: string): string {
  if (sshKeyFault(pasted) !== undefined) return ''
  return pasted.trim().split(/ +/).slice(2).join(' ').slice(0, NAME_CHARS)
}

const NAME_CHARS = 255
const SHOWN_CHARS = 30

function shortened(word: string): string {
  return word.length > SHOWN_CHARS ? `${word.slice(0, SHOWN_CHARS)}…` : word
}
