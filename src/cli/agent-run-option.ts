/** Options of `berth agent run` alone: how tenants are run. What is given once is kept, as in `runSettings`. */
import path from 'node:path'
import { InvalidArgumentError, Option, type Command } from 'commander'
import { MAX_ALLOWED_REGISTRIES, runSettings, type RunSettings } from '../agent/identity.ts'

const MAX_STALL_SECONDS = 3_600

export function addRunOptions(command: Command): Command {
  return command
    .option('--docker-socket <file>', 'where Docker or Podman listens (looked for)', absolutePath)
    .option('--image <name>', 'image of containers whose order names none (debian:12)')
    .option('--allow-local-images', 'let tenants use images of this machine by name')
    .option('--no-allow-local-images', 'take that back')
    .option('--allow-registry <host...>', 'let tenants pull from these private registries', parseRegistry)
    .option('--allow-private-registries', 'let tenants pull from any private address')
    .option('--no-allow-private-registries', 'take that back')
    .option('--allow-unfenced', 'run containers also where they cannot be kept apart')
    .option('--no-allow-unfenced', 'take that back')
    .option('--registry-auth <file>', 'logins of registries, as in ~/.docker/config.json', absolutePath)
    .option('--pull-stall <seconds>', 'restarts a pull without progress for so long (120)', parseStall)
    .addOption(new Option('--accel <how>', 'of virtual machines (found out)').choices(['kvm', 'tcg']))
}

/** What was kept, with what is given anew. */
export function runSettingsOf(options: RunSettings, kept: RunSettings | undefined): RunSettings {
  return { ...kept, ...runSettings.parse(options) }
}

function absolutePath(text: string): string {
  return path.resolve(text)
}

/** `none` names none: it takes back what was kept. */
function parseRegistry(text: string, before: readonly string[] = []): readonly string[] {
  if (text === 'none') return []
  const all = [...before, text]
  if (runSettings.shape.allowRegistry.safeParse(all).success) return all
  throw new InvalidArgumentError(
    `A registry is a host with or without a port, such as registry.lan:5000; ${MAX_ALLOWED_REGISTRIES} at most.`,
  )
}

function parseStall(text: string): number {
  const seconds = Number(text)
  if (Number.isInteger(seconds) && seconds >= 1 && seconds <= MAX_STALL_SECONDS) return seconds
  throw new InvalidArgumentError(`A whole number of seconds, from 1 to ${MAX_STALL_SECONDS}.`)
}
