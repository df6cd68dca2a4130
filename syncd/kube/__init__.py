"""The only room that imports httpx: it speaks to API servers and implements the `ApiServer` and `Discoverer` ports."""
