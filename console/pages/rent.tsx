/** Not written yet. */
import { Page } from '../ui/page.tsx'

export function RentPage() {
  return <Page title="Rent">…</Page>
}
