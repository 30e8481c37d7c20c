/** Decides what a simulated machine does with its order when it boots. */

/** A machine that has booted, as somebody sees it who logs in. */
export interface BootedMachine {
  /** The only user that exists. */
  readonly user: string
  /** Public keys that can log in as that user. */
  readonly keys: readonly string[]
  /** The user data or script that ran at its first boot. undefined: there was none, or it was garbage. */
  readonly ran: string | undefined
}

const KEY = /\b(?:ssh-ed25519|ssh-rsa|ecdsa-[a-z0-9-]+) [A-Za-z0-9+/=]+/g

/** `given`: the keys and the user data or script of the order, as the machine gets them. */
export function bootMachine(user: string, given: { keys: readonly string[]; text: string }): BootedMachine {
  // cloud-init ignores what it does not recognise, and a kernel runs no script without its first line.
  const isProgram = /^(?:#!|#cloud-config|Content-Type: multipart|MIME-Version)/.test(given.text)
  // A script that installs keys installs them for the user that it names.
  const isForUser = given.text.startsWith('#!')
    ? given.text.includes(user === 'root' ? '/root/.ssh' : `/home/${user}/.ssh`)
    : true
  const installed = isProgram && isForUser ? (decoded(given.text).match(KEY) ?? []) : []
  return { user, keys: [...given.keys, ...installed], ran: isProgram ? given.text : undefined }
}

/** With the parts that are in base64, as cloud-init reads them. */
function decoded(text: string): string {
  const parts = text.match(/(?:^[A-Za-z0-9+/=]{16,}$\n?)+/gm) ?? []
  return [text, ...parts.map((part) => Buffer.from(part, 'base64').toString('utf8'))].join('\n')
}
