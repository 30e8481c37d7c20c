/**
 * What is wrong with a pasted SSH key, in words that say what to paste instead. The server reads the key itself and has
 * the last word; what people paste by mistake is told here, and a private key never leaves the browser.
 */

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
  if (text === '') return 'Paste the public key.'
  if (text.includes('PRIVATE KEY')) {
    return 'This is a private key. Keep it to yourself, and paste the line of the .pub file beside it.'
  }
  if (text.startsWith('---- BEGIN SSH2')) {
    return 'This is the SSH2 form. Turn it into one line with: ssh-keygen -i -f FILE'
  }
  if (text.includes('\n')) return 'There is more than one line. Paste one key at a time, on one line.'
  const [type = '', body = ''] = text.split(/ +/)
  if (type === 'ssh-dss') return 'DSA keys are too weak to be let in. Make a new one with: ssh-keygen -t ed25519'
  if (!types.includes(type)) {
    return types.some((known) => text.includes(`${known} `))
      ? 'There is something in front of the key. It has to begin with its type, such as ssh-ed25519.'
      : `A public key begins with its type, such as ssh-ed25519; this begins with “${shortened(type)}”.`
  }
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(body))
    return 'The key itself is missing after its type, or has letters that no key has.'
  return undefined
}

/** The third word: "you@laptop". */
export function sshKeyComment(pasted: string): string {
  if (sshKeyFault(pasted) !== undefined) return ''
  return pasted.trim().split(/ +/).slice(2).join(' ').slice(0, NAME_CHARS)
}

const NAME_CHARS = 255
const SHOWN_CHARS = 30

function shortened(word: string): string {
  return word.length > SHOWN_CHARS ? `${word.slice(0, SHOWN_CHARS)}…` : word
}
