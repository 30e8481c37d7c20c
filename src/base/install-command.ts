/**
 * Builds the shell command that makes a machine a host: it installs the agent from its server, joins and keeps the
 * agent running.
 */

/** `more` are further options of `berth agent join`. Every value must be safe in a shell. */
export function installCommand(
  server: string,
  { token, more = [] }: { readonly token: string; readonly more?: readonly string[] },
): string {
  return [`curl -fsSL ${server}/install.sh | sh -s -- --token ${token}`, ...more].join(' \\\n  ')
}
