"""The routes of this room, module by module."""

from serving.account import admin_pages, export, me_page, usage_page

MODULES = (admin_pages, export, me_page, usage_page)
