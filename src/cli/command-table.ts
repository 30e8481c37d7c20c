/**
 * Which file defines which commands. A file is loaded only when one of its commands is used: loading all of them, with
 * the contract's schemas that some need, takes longer than most commands do.
 */
import type { Command } from 'commander'
import type { Run } from './session.ts'
import type { Shell } from './shell.ts'

type AddCommands = (program: Command, run: Run, shell: Shell) => void

export interface CommandFile {
  /** The names and aliases of its top-level commands. A test compares them with what it adds. */
  readonly names: readonly string[]
  load(): Promise<AddCommands>
}

/** By the title of their group, in the order of the help. */
export const commandFiles: Readonly<Record<string, readonly CommandFile[]>> = {
  'Server:': [
    {
      names: ['serve', 'backup', 'restore', 'status'],
      load: async () => (await import('./server.ts')).addServerCommands,
    },
    { names: ['login', 'logout', 'profiles'], load: async () => (await import('./login.ts')).addProfileCommands },
    { names: ['completion'], load: async () => (await import('./completion.ts')).addCompletionCommand },
  ],
  'Customers:': [
    { names: ['balance'], load: async () => (await import('./billing.ts')).addBillingCommands },
    { names: ['statement', 'purchases'], load: async () => (await import('./statement.ts')).addStatementCommands },
    { names: ['invoices'], load: async () => (await import('./invoice.ts')).addInvoiceCommands },
    { names: ['gpus'], load: async () => (await import('./gpu.ts')).addGpuCommands },
    { names: ['rent'], load: async () => (await import('./rent.ts')).addRentCommand },
    { names: ['ls', 'rentals'], load: async () => (await import('./rental.ts')).addRentalCommands },
    { names: ['show'], load: async () => (await import('./rental-show.ts')).addShowCommand },
    {
      names: ['logs', 'ssh', 'terminal', 'exec'],
      load: async () => (await import('./machine-session.ts')).addMachineSessionCommands,
    },
    { names: ['change'], load: async () => (await import('./change.ts')).addChangeCommand },
    { names: ['terminate'], load: async () => (await import('./terminate.ts')).addTerminateCommand },
    { names: ['reserve'], load: async () => (await import('./reserve.ts')).addReserveCommand },
    { names: ['volumes'], load: async () => (await import('./volume.ts')).addVolumeCommands },
    { names: ['events'], load: async () => (await import('./event.ts')).addEventCommands },
    { names: ['chat'], load: async () => (await import('./chat.ts')).addChatCommands },
    { names: ['image'], load: async () => (await import('./picture.ts')).addPictureCommands },
    { names: ['speak'], load: async () => (await import('./speak.ts')).addSpeakCommands },
    { names: ['cost'], load: async () => (await import('./cost.ts')).addCostCommands },
    { names: ['requests'], load: async () => (await import('./request.ts')).addRequestCommands },
    { names: ['usage'], load: async () => (await import('./usage.ts')).addUsageCommands },
    { names: ['account'], load: async () => (await import('./account.ts')).addAccountCommands },
    { names: ['keys'], load: async () => (await import('./api-key.ts')).addApiKeyCommands },
    { names: ['ssh-keys'], load: async () => (await import('./ssh-key.ts')).addSshKeyCommands },
    { names: ['webhooks'], load: async () => (await import('./webhook.ts')).addWebhookCommands },
    { names: ['members'], load: async () => (await import('./member.ts')).addMemberCommands },
  ],
  'Suppliers:': [
    { names: ['agent'], load: async () => (await import('./agent.ts')).addAgentCommands },
    { names: ['supply'], load: loadSupply },
  ],
  'Operators:': [
    { names: ['operator'], load: async () => (await import('./operator.ts')).addOperatorCommands },
    { names: ['models'], load: async () => (await import('./model.ts')).addModelCommands },
    { names: ['deployments'], load: async () => (await import('./model-deployment.ts')).addDeploymentCommands },
    { names: ['ledger'], load: async () => (await import('./ledger.ts')).addLedgerCommands },
    { names: ['audit'], load: async () => (await import('./engine.ts')).addEngineCommands },
  ],
}

async function loadSupply(): Promise<AddCommands> {
  const [{ addSupplyCommands }, { addSupplyMachineCommands }, { addEarningsCommand }] = await Promise.all([
    import('./supply.ts'),
    import('./supply-machine.ts'),
    import('./earnings.ts'),
  ])
  return (program, run) => {
    const supply = addSupplyCommands(program, run)
    addSupplyMachineCommands(supply, run)
    addEarningsCommand(supply, run)
  }
}
