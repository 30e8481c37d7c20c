/** `berth mcp`: the tools of the server for an agent that starts its tools as programs. */
import { custom } from '../kit/row.ts'
import type { Row } from '../kit/row-type.ts'

export const rows: readonly Row[] = [
  custom('mcp', 'give an agent tools for machines (MCP over standard input and output)', {
    who: 'customer',
    // Loaded here: no other command needs the protocol.
    run: async ({ session }) => (await import('./mcp-bridge.ts')).serveBridge(session),
    examples: ['berth mcp', 'berth mcp --profile work'],
    notes: 'The agent starts it; see docs/customer/mcp.md for its configuration.',
  }),
]
