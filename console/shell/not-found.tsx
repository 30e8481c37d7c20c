/** An unknown URL. */
import { ButtonLink } from '../ui/button.tsx'
import { Empty } from '../ui/empty.tsx'
import { Page } from '../ui/page.tsx'

export function NotFound() {
  return (
    <Page title="Page not found">
      <Empty title="This page does not exist" action={<ButtonLink to="/">Overview</ButtonLink>}>
        Check the URL, or go back to the overview.
      </Empty>
    </Page>
  )
}
