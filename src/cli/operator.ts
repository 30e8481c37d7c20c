/** `berth operator`: what the house does with accounts, money, prices and machines, and the log of all of it. */
import type { Command } from 'commander'
import { addHostCommands } from './host.ts'
import { addAccountCommands } from './operator-account.ts'
import { addOperatorFleetCommands } from './operator-fleet.ts'
import { addLogCommand } from './operator-log.ts'
import { addMoneyCommands } from './operator-money.ts'
import { addPriceCommands } from './operator-price.ts'
import { addOperatorRentalCommand } from './operator-rental.ts'
import { addOperatorVolumeCommand } from './operator-volume.ts'
import { addOperatorTrafficCommand } from './operator-traffic.ts'
import { GROUP_USAGE, type Run } from './session.ts'
import type { Shell } from './shell.ts'

export function addOperatorCommands(program: Command, run: Run, shell: Shell): void {
  const operator = program
    .command('operator')
    .description('accounts, money, prices, hosts and the audit log')
    .usage(GROUP_USAGE)
    .commandsGroup('Operators:')
  addAccountCommands(operator, run)
  addMoneyCommands(operator, run)
  addPriceCommands(operator, run, shell)
  addLogCommand(operator, run)
  addOperatorFleetCommands(operator, run)
  addHostCommands(operator, run, shell)
  addOperatorRentalCommand(operator, run)
  addOperatorVolumeCommand(operator, run)
  addOperatorTrafficCommand(operator, run, shell)
}
